#include "daemon/codec/introduction.h"

namespace rollcall {

v1::AgentMessage IntroductionOf(const v1::Hello& hello) {
  v1::AgentMessage message;
  v1::Hello& introduction = *message.mutable_introduction();
  introduction.set_job(hello.job());
  introduction.set_run(hello.run());
  introduction.set_node(hello.node());
  introduction.set_incarnation(hello.incarnation());
  introduction.set_previous_incarnation(hello.previous_incarnation());
  introduction.set_launcher(hello.launcher());
  if (hello.has_token()) *introduction.mutable_token() = hello.token();
  if (hello.has_node_credential()) {
    introduction.set_node_credential(hello.node_credential());
  }
  return message;
}

}  // namespace rollcall
