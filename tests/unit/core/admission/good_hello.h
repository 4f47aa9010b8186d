// A hello that is admitted, for tests that change it.
#ifndef ROLLCALL_TESTS_UNIT_CORE_ADMISSION_GOOD_HELLO_H_
#define ROLLCALL_TESTS_UNIT_CORE_ADMISSION_GOOD_HELLO_H_

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

inline v1::Hello GoodHello() {
  v1::Hello hello;
  hello.set_job("train");
  hello.set_node("node1");
  hello.set_incarnation(7);
  hello.mutable_token()->set_id("abc");
  hello.mutable_token()->set_secret("secret");
  hello.set_ranks(8);
  hello.mutable_facts()->set_hostname("node1");
  v1::Interface& interface = *hello.mutable_facts()->add_interfaces();
  interface.set_name("eth0");
  v1::InterfaceAddress& address = *interface.add_addresses();
  address.set_address("10.0.0.1");
  address.set_prefix_length(24);
  return hello;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_ADMISSION_GOOD_HELLO_H_
