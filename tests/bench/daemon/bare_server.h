// BareServer: the lower bound that rollcall is compared with. It does the
// minimum of a roll call: it takes one message from each of N streams, then
// sends the same bytes to all of them and, with `tells_loss`, an Abort once a
// stream has broken. It parses nothing, authenticates no client and
// stores nothing.
//
// It has the same service and kind of certificate as the daemon, gRPC's
// callback API, and one shared slice for all streams. Thread rule: any thread.
#ifndef ROLLCALL_TESTS_BENCH_DAEMON_BARE_SERVER_H_
#define ROLLCALL_TESTS_BENCH_DAEMON_BARE_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

namespace grpc {
class Server;
}

namespace rollcall::bench {

class BareServer {
 public:
  // Answers all streams once `streams` of them have sent a message, and each
  // later one at once. The answer is a Commit of about `answer_bytes`, or a
  // Welcome if that is 0. With `tells_loss`, all other streams get an Abort
  // when the first stream ends. Exits the process if the server does not start.
  BareServer(bool tls, int streams, size_t answer_bytes, bool tells_loss);
  ~BareServer();

  int port() const { return port_; }
  // See Server::pin().
  const std::string& pin() const { return pin_; }

 private:
  class Service;
  std::string pin_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rollcall::bench

#endif  // ROLLCALL_TESTS_BENCH_DAEMON_BARE_SERVER_H_
