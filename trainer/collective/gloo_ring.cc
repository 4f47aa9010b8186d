#include "trainer/collective/gloo_ring.h"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <exception>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/collective/blob_exchange.h"

namespace rollcall {
namespace {

// Removes the source location with which Gloo's messages begin.
absl::string_view WithoutLocation(absl::string_view message) {
  if (!absl::StartsWith(message, "[/") && !absl::StartsWith(message, "[.")) {
    return message;
  }
  const size_t end = message.find("] ");
  return end == message.npos ? message : message.substr(end + 2);
}

constexpr uint64_t kBackwardTags = uint64_t{1} << 62;

}  // namespace

std::shared_ptr<GlooRing> GlooRing::Make(const GlooOptions& options) {
  return std::shared_ptr<GlooRing>(new GlooRing(options));
}

GlooRing::GlooRing(const GlooOptions& options)
    : options_(options),
      onward_{right(), left(), 0},
      back_{left(), right(), kBackwardTags} {}

GlooRing::~GlooRing() = default;

absl::Status GlooRing::Connect() {
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options_.address;
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    context_ = device_->createContext(options_.rank, options_.size);
    context_->setTimeout(absl::ToChronoMilliseconds(options_.timeout));
    for (const int peer : std::set<int>{left(), right()}) {
      context_->createPair(peer);
    }
    std::vector<char> to_left, to_right;
    absl::Status status = ExchangeAddresses(&to_left, &to_right);
    if (!status.ok()) return status;
    {
      MutexLock lock(mutex_);
      if (interrupted_) return absl::AbortedError("the world has ended");
      connecting_ = true;
    }
    // Both ends must connect at the same time. So even ranks connect to the
    // right first, and odd ranks to the left. If all began with the same side,
    // each would wait for the next rank in the ring.
    const bool right_first = options_.rank % 2 == 0;
    for (const bool to_the_right : {right_first, !right_first}) {
      if (!to_the_right && left() == right()) continue;
      context_->getPair(to_the_right ? right() : left())
          ->connect(to_the_right ? to_right : to_left);
    }
  } catch (const std::exception& e) {
    if (absl::Status s = Interrupted(); !s.ok()) return s;
    return absl::UnavailableError(
        absl::StrCat(options_.name(options_.rank), " at ", options_.address,
                     " could not connect to ", options_.name(right()), " and ",
                     options_.name(left()), ": ", WithoutLocation(e.what()),
                     "; make sure that the nodes reach each other's addresses "
                     "on all ports"));
  }
  MutexLock lock(mutex_);
  connecting_ = false;
  if (interrupted_) return absl::AbortedError("the world has ended");
  return absl::OkStatus();
}

// Each rank publishes the address for its left neighbour, then the one for its
// right neighbour. With two ranks both neighbours are the same rank.
absl::Status GlooRing::ExchangeAddresses(std::vector<char>* to_left,
                                         std::vector<char>* to_right) {
  const std::vector<char> for_left =
      context_->getPair(left())->address().bytes();
  const std::vector<char> for_right =
      context_->getPair(right())->address().bytes();
  std::string mine(for_left.begin(), for_left.end());
  mine.append(for_right.begin(), for_right.end());
  const absl::StatusOr<std::vector<std::string>> all =
      ExchangeBlobs(options_.exchange, "gloo", mine);
  if (!all.ok()) return all.status();
  for (const int peer : {left(), right()}) {
    if (peer < static_cast<int>(all->size()) &&
        (*all)[peer].size() == mine.size()) {
      continue;
    }
    return absl::UnavailableError(absl::StrCat(
        options_.name(peer), " sent no addresses that ",
        options_.name(options_.rank),
        " understands; run the same rollcall-train on every node"));
  }
  const std::string& lefts = (*all)[left()];
  const std::string& rights = (*all)[right()];
  to_left->assign(lefts.begin() + for_left.size(), lefts.end());
  to_right->assign(rights.begin(), rights.begin() + for_left.size());
  return absl::OkStatus();
}

absl::Status GlooRing::Pass(absl::Span<const char> out, absl::Span<char> in) {
  return PassOn(onward_, out, in);
}

absl::Status GlooRing::PassBack(absl::Span<const char> out,
                                absl::Span<char> in) {
  return PassOn(back_, out, in);
}

absl::Status GlooRing::PassOn(Way& way, absl::Span<const char> out,
                              absl::Span<char> in) {
  try {
    Buffer sending, receiving;
    std::vector<Buffer> held;
    if (!out.empty()) {
      // Gloo's parameter is not const, but Gloo only reads this buffer.
      sending = context_->createUnboundBuffer(const_cast<char*>(out.data()),
                                              out.size());
      held.push_back(sending);
    }
    if (!in.empty()) {
      receiving = context_->createUnboundBuffer(in.data(), in.size());
      held.push_back(receiving);
    }
    if (absl::Status s = Hold(held); !s.ok()) return s;
    if (receiving) receiving->recv(way.from, way.tags + ++way.received);
    if (sending) sending->send(way.to, way.tags + ++way.sent);
    const bool done = (!receiving || receiving->waitRecv()) &&
                      (!sending || sending->waitSend());
    if (absl::Status s = Hold({}); !s.ok() || done) return s;
    return absl::AbortedError("the world has ended");
  } catch (const std::exception& e) {
    if (absl::Status s = Hold({}); !s.ok()) return s;
    return Failure(e.what());
  }
}

absl::Status GlooRing::Hold(const std::vector<Buffer>& buffers) {
  std::vector<Buffer> before;  // Destroyed after the lock is released.
  MutexLock lock(mutex_);
  // Interrupt may still hold these buffers. As long as one of them exists,
  // incoming data is written to memory that the caller will reuse.
  while (waking_ > 0) woken_.Wait(mutex_);
  before.swap(held_);
  if (interrupted_) return absl::AbortedError("the world has ended");
  held_ = buffers;
  return absl::OkStatus();
}

absl::Status GlooRing::Interrupted() const {
  MutexLock lock(mutex_);
  return interrupted_ ? absl::AbortedError("the world has ended")
                      : absl::OkStatus();
}

void GlooRing::Interrupt() {
  std::vector<Buffer> held;
  bool connecting = false;
  {
    MutexLock lock(mutex_);
    interrupted_ = true;
    held = held_;
    connecting = connecting_;
    ++waking_;
  }
  for (const Buffer& buffer : held) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  held.clear();
  {
    MutexLock lock(mutex_);
    --waking_;
    woken_.NotifyAll();
  }
  if (!connecting) return;
  for (const int peer : std::set<int>{left(), right()}) {
    try {
      context_->getPair(peer)->close();
    } catch (const std::exception&) {
      // The buffer has failed already, and its failure woke its waiter.
    }
  }
}

absl::Status GlooRing::Failure(absl::string_view what) {
  const std::vector<std::string> gone = GonePeers();
  const std::string& self = options_.name(options_.rank);
  if (!gone.empty()) {
    return absl::UnavailableError(absl::StrCat(
        self, ": the connection to ", absl::StrJoin(gone, " and to "),
        " broke (", WithoutLocation(what), "); see that rank's output"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      self, ": no answer within ", absl::FormatDuration(options_.timeout),
      " though the connections to ", options_.name(left()), " and ",
      options_.name(right()), " stand (", WithoutLocation(what),
      "); a rank is stopped or far behind: see --collective-timeout"));
}

// The neighbours whose connection broke before this failure. On a broken
// connection, queuing a message fails. On an intact one it queues a message
// that no rank reads; this does no harm, because a failure ends the ring.
std::vector<std::string> GlooRing::GonePeers() {
  std::vector<std::string> gone;
  char word = 0;
  auto buffer = context_->createUnboundBuffer(&word, sizeof(word));
  constexpr uint64_t kUnreadTag = ~uint64_t{0};
  for (const int peer : std::set<int>{left(), right()}) {
    try {
      context_->getPair(peer)->send(buffer.get(), kUnreadTag, 0, sizeof(word));
    } catch (const std::exception& e) {
      // After a timeout Gloo closes all of its own pairs, so this does not show
      // a broken connection.
      if (absl::StrContains(e.what(), "Application timeout")) continue;
      gone.push_back(options_.name(peer));
    }
  }
  return gone;
}

}  // namespace rollcall
