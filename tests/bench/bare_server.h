// BareServer: the floor that rollcall is measured against. It does the least
// that a roll call could: takes one message from each of N streams, then sends
// all of them the same bytes, and where asked to, others once one of them has
// broken. It parses nothing, checks nobody, keeps nothing.
//
// Same service, same kind of certificate, gRPC's callback API and one shared
// slice for all. Thread rule: any thread.
#ifndef ROLLCALL_TESTS_BENCH_BARE_SERVER_H_
#define ROLLCALL_TESTS_BENCH_BARE_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

namespace grpc {
class Server;
}

namespace rollcall::bench {

class BareServer {
 public:
  // Answers once `streams` have spoken, and each later one at once: with a
  // Commit of about `answer_bytes`, or a Welcome where that is 0. Where it
  // `tells_loss`, all others get an Abort once the first of them has ended.
  // Exits the process where it does not come up.
  BareServer(bool tls, int streams, size_t answer_bytes, bool tells_loss);
  ~BareServer();

  int port() const { return port_; }
  // As Server::pin().
  const std::string& pin() const { return pin_; }

 private:
  class Service;
  std::string pin_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_BARE_SERVER_H_
