#include "trainer/collective/gloo.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

// A key of Gloo's is a word, which may be empty, and a rank. All ranks set the
// same words in the same order.
struct StoreKey {
  std::string word;
  size_t rank = 0;
};

StoreKey Split(const std::string& key) {
  const size_t digits = key.find_last_not_of("0123456789") + 1;
  StoreKey split;
  split.word = key.substr(0, digits);
  if (!absl::SimpleAtoi(key.substr(digits), &split.rank)) {
    throw gloo::IoException("a key with no rank: " + key);
  }
  return split;
}

// Gloo's view of the exchange. All ranks set a word before any reads it, so
// that setting is the exchange, and waiting has nothing left to do. Exceptions
// are the only way out of Gloo; they end in ConnectGloo.
class ExchangeStore final : public gloo::rendezvous::Store {
 public:
  explicit ExchangeStore(const Exchange& exchange) : exchange_(exchange) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const StoreKey at = Split(key);
    absl::StatusOr<std::vector<std::string>> values =
        ExchangeBlobs(exchange_, absl::StrCat("gloo/", at.word),
                      absl::string_view(data.data(), data.size()));
    if (!values.ok()) {
      status_ = values.status();
      throw gloo::IoException("exchange");
    }
    values_[at.word] = *std::move(values);
  }

  std::vector<char> get(const std::string& key) override {
    const StoreKey at = Split(key);
    const std::vector<std::string>& values = values_[at.word];
    if (at.rank >= values.size() || values[at.rank].empty()) {
      throw gloo::IoException(
          absl::StrCat("rank ", at.rank, " gave no addresses"));
    }
    return std::vector<char>(values[at.rank].begin(), values[at.rank].end());
  }

  void wait(const std::vector<std::string>&) override {}

  const absl::Status& status() const { return status_; }

 private:
  const Exchange& exchange_;
  std::map<std::string, std::vector<std::string>> values_;
  absl::Status status_;
};

// Gloo's messages begin with the place in its sources.
absl::string_view WithoutPlace(absl::string_view message) {
  if (!absl::StartsWith(message, "[/") && !absl::StartsWith(message, "[.")) {
    return message;
  }
  const size_t end = message.find("] ");
  return end == message.npos ? message : message.substr(end + 2);
}

class GlooCollective final : public Collective {
 public:
  GlooCollective(GlooOptions options,
                 std::shared_ptr<gloo::rendezvous::Context> context)
      : options_(std::move(options)), context_(std::move(context)) {}

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  absl::Status AllReduce(absl::Span<float> values,
                         Reduction reduction) override {
    ++sequence_;
    if (values.empty()) return absl::OkStatus();
    try {
      gloo::AllreduceOptions all_reduce(context_);
      all_reduce.setOutput(values.data(), values.size());
      // A ring reduces every piece once and passes it on: equal bits
      // everywhere.
      all_reduce.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      using Sum = void (*)(void*, const void*, const void*, size_t);
      all_reduce.setReduceFunction(reduction == Reduction::kSum
                                       ? static_cast<Sum>(&gloo::sum<float>)
                                       : static_cast<Sum>(&gloo::max<float>));
      gloo::allreduce(all_reduce);
      return absl::OkStatus();
    } catch (const std::exception& e) {
      return Failure(e.what(), values.size());
    }
  }

  absl::Status Finish() override {
    // By the exchange, not by Gloo: a barrier over the connections would leave
    // its own last messages open to being cut off.
    return options_.exchange("gloo/finish", "").status();
  }

 private:
  absl::Status Failure(absl::string_view what, size_t count) {
    const std::string where =
        absl::StrCat("all-reduce ", sequence_, " of ", count, " values on ",
                     options_.name(options_.rank));
    const std::vector<std::string> gone = GonePeers();
    if (!gone.empty()) {
      return absl::UnavailableError(absl::StrCat(
          where, ": the connection to ", absl::StrJoin(gone, " and to "),
          " broke (", WithoutPlace(what), "); see that rank's output"));
    }
    return absl::DeadlineExceededError(absl::StrCat(
        where, ": no answer within ", absl::FormatDuration(options_.timeout),
        " though all connections stand (", WithoutPlace(what),
        "); a rank is stopped or far behind: see --collective-timeout"));
  }

  // Peers whose connection had broken before this failure. Gloo tells by
  // refusing to queue on it; that the others now queue a word that nobody
  // reads is no harm, since a failure ends the communicator.
  std::vector<std::string> GonePeers() {
    std::vector<std::string> gone;
    char word = 0;
    auto buffer = context_->createUnboundBuffer(&word, sizeof(word));
    constexpr uint64_t kNobodysTag = ~uint64_t{0};
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer == options_.rank) continue;
      try {
        context_->getPair(peer)->send(buffer.get(), kNobodysTag, 0,
                                      sizeof(word));
      } catch (const std::exception& e) {
        // After a timeout Gloo closes all pairs of its own.
        if (absl::StrContains(e.what(), "Application timeout")) continue;
        gone.push_back(options_.name(peer));
      }
    }
    return gone;
  }

  const GlooOptions options_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  uint64_t sequence_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(GlooOptions options) {
  ExchangeStore store(options.exchange);
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options.address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(absl::ToChronoMilliseconds(options.timeout));
    context->connectFullMesh(store, device);
    return std::make_unique<GlooCollective>(std::move(options),
                                            std::move(context));
  } catch (const std::exception& e) {
    if (!store.status().ok()) return store.status();
    return absl::UnavailableError(absl::StrCat(
        options.name(options.rank), " at ", options.address,
        " could not connect to its ", options.size - 1,
        " peers: ", WithoutPlace(e.what()),
        "; see that the nodes reach each other's addresses on all ports"));
  }
}

}  // namespace rollcall
