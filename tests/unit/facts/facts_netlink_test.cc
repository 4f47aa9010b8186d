// Dumps of rtnetlink that are built by hand.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "client/facts/facts.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/netlink.h"
#include "client/facts/system/network.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

template <typename T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Padded(std::string bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4, '\0');
  return bytes;
}

std::string Attribute(int type, const std::string& value) {
  rtattr head{};
  head.rta_type = static_cast<unsigned short>(type);
  head.rta_len = static_cast<unsigned short>(sizeof(head) + value.size());
  return Padded(Bytes(head) + value);
}

std::string Text(const char* text) { return std::string(text) + '\0'; }

std::string Message(uint16_t type, const std::string& payload,
                    uint16_t flags = NLM_F_MULTI) {
  nlmsghdr head{};
  head.nlmsg_len = static_cast<uint32_t>(sizeof(head) + payload.size());
  head.nlmsg_type = type;
  head.nlmsg_flags = flags;
  return Padded(Bytes(head) + payload);
}

std::string Done(int error = 0) { return Message(NLMSG_DONE, Bytes(-error)); }

std::string Link(int index, const std::string& attributes,
                 uint16_t hardware = ARPHRD_ETHER, uint32_t flags = 0,
                 unsigned char family = AF_UNSPEC) {
  ifinfomsg head{};
  head.ifi_family = family;
  head.ifi_index = index;
  head.ifi_type = hardware;
  head.ifi_flags = flags;
  return Message(RTM_NEWLINK, Bytes(head) + attributes);
}

std::string Named(const char* name) {
  return Attribute(IFLA_IFNAME, Text(name));
}

std::string Kind(const char* kind) {
  return Attribute(IFLA_LINKINFO | NLA_F_NESTED,
                   Attribute(IFLA_INFO_XSTATS, "abc") +
                       Attribute(IFLA_INFO_KIND, Text(kind)));
}

TEST(Netlink, LinksAreReadWithAllThatTheySay) {
  std::vector<NetworkLink> links;
  const NetlinkEnd end = ParseLinks(
      Link(1, Named("lo"), ARPHRD_LOOPBACK, IFF_UP | IFF_LOOPBACK) +
          Link(2,
               Named("eth0") + Attribute(IFLA_MTU, Bytes(uint32_t{9000})) +
                   Attribute(IFLA_MASTER, Bytes(int{7})) +
                   Attribute(IFLA_TXQLEN, "x"),
               ARPHRD_ETHER, IFF_UP | IFF_RUNNING) +
          Link(7, Named("br0") + Kind("bridge")) +
          Link(8, Named("ib0"), ARPHRD_INFINIBAND) +
          Link(9, Named("ib0.8001") + Kind("ipoib"), ARPHRD_INFINIBAND) +
          // These entries are ignored: a bridge's port a second time, a link
          // without a name, a link without an index, and another kind of
          // message.
          Link(2, Named("eth0"), ARPHRD_ETHER, 0, AF_BRIDGE) + Link(10, "") +
          Link(0, Named("odd")) + Message(RTM_NEWADDR, "") + Done(),
      links);
  EXPECT_TRUE(end.done);
  EXPECT_EQ(end.error, 0);
  EXPECT_FALSE(end.interrupted);
  ASSERT_EQ(links.size(), 5u);
  EXPECT_EQ(links[0].name, "lo");
  EXPECT_EQ(links[0].flags, uint32_t{IFF_UP | IFF_LOOPBACK});
  EXPECT_EQ(links[1].name, "eth0");
  EXPECT_EQ(links[1].mtu, 9000u);
  EXPECT_EQ(links[1].master, 7);
  EXPECT_EQ(DeviceType(links[1]), "");
  EXPECT_EQ(DeviceType(links[2]), "bridge");
  EXPECT_EQ(DeviceType(links[3]), "ipoib");
  EXPECT_EQ(DeviceType(links[4]), "ipoib");
}

TEST(Netlink, AddressesAreThoseOfThisEnd) {
  const auto address = [](unsigned char family, int prefix,
                          const std::string& attributes,
                          unsigned char flags = 0) {
    ifaddrmsg head{};
    head.ifa_family = family;
    head.ifa_prefixlen = static_cast<unsigned char>(prefix);
    head.ifa_flags = flags;
    head.ifa_index = 3;
    return Message(RTM_NEWADDR, Bytes(head) + attributes);
  };
  const std::string four("\x0a\x00\x00\x01", 4);
  const std::string peer("\x0a\x00\x00\x02", 4);
  const std::string six =
      std::string("\xfd\x00", 2) + std::string(13, '\0') + "\x01";
  struct {
    const char* name;
    std::string bytes;
    const char* expect;
  } const kRows[] = {
      {"IPv4", address(AF_INET, 24, Attribute(IFA_ADDRESS, four)),
       "10.0.0.1/24"},
      {"point to point",
       address(AF_INET, 32,
               Attribute(IFA_ADDRESS, peer) + Attribute(IFA_LOCAL, four)),
       "10.0.0.1/32"},
      {"IPv6", address(AF_INET6, 64, Attribute(IFA_ADDRESS, six)),
       "fd00::1/64"},
      {"held by another",
       address(AF_INET6, 64, Attribute(IFA_ADDRESS, six), IFA_F_DADFAILED), ""},
      {"the same in the long flags",
       address(AF_INET6, 64,
               Attribute(IFA_ADDRESS, six) +
                   Attribute(IFA_FLAGS, Bytes(uint32_t{IFA_F_DADFAILED}))),
       ""},
      {"still tentative",
       address(AF_INET6, 64, Attribute(IFA_ADDRESS, six), IFA_F_TENTATIVE),
       "fd00::1/64"},
      {"too short", address(AF_INET, 24, Attribute(IFA_ADDRESS, "\x0a")), ""},
      {"IPv6 of four bytes",
       address(AF_INET6, 24, Attribute(IFA_ADDRESS, four)), ""},
      {"another family", address(AF_PACKET, 24, Attribute(IFA_ADDRESS, four)),
       ""},
      {"no address", address(AF_INET, 24, ""), ""},
      {"a prefix too long", address(AF_INET, 33, Attribute(IFA_ADDRESS, four)),
       ""},
      {"a message without its head", Message(RTM_NEWADDR, "abc"), ""},
  };
  for (const auto& row : kRows) {
    std::vector<NetworkAddress> found;
    ParseAddresses(row.bytes, found);
    std::string text;
    for (const NetworkAddress& one : found) {
      EXPECT_EQ(one.link, 3) << row.name;
      text += one.address.address() + "/" +
              std::to_string(one.address.prefix_length());
    }
    EXPECT_EQ(text, row.expect) << row.name;
  }
}

struct Route {
  int prefix = 0;
  unsigned char type = RTN_UNICAST;
  unsigned char table = RT_TABLE_MAIN;
  uint32_t flags = 0;
  unsigned char source_prefix = 0;
};

std::string RouteMessage(const Route& route, const std::string& attributes) {
  rtmsg head{};
  head.rtm_family = AF_INET;
  head.rtm_dst_len = static_cast<unsigned char>(route.prefix);
  head.rtm_src_len = route.source_prefix;
  head.rtm_type = route.type;
  head.rtm_table = route.table;
  head.rtm_flags = route.flags;
  return Message(RTM_NEWROUTE, Bytes(head) + attributes);
}

std::string Oif(int link) { return Attribute(RTA_OIF, Bytes(link)); }

std::string Hop(int link, unsigned char flags = 0, int extra = 0) {
  rtnexthop hop{};
  hop.rtnh_len = static_cast<unsigned short>(sizeof(hop) + extra);
  hop.rtnh_flags = flags;
  hop.rtnh_ifindex = link;
  return Bytes(hop) + std::string(extra > 0 ? extra : 0, '\0');
}

TEST(Netlink, DefaultRoutesAreThoseThatLeadOut) {
  using Links = std::set<int>;
  const std::string table_100 = Attribute(RTA_TABLE, Bytes(uint32_t{100}));
  struct {
    const char* name;
    std::string bytes;
    Links expect;
  } const kRows[] = {
      {"one", RouteMessage({}, Oif(2)), {2}},
      {"two", RouteMessage({}, Oif(2)) + RouteMessage({}, Oif(5)), {2, 5}},
      {"a subnet", RouteMessage({.prefix = 24}, Oif(2)), {}},
      {"0.0.0.0/1", RouteMessage({.prefix = 1}, Oif(2)), {}},
      {"from one source", RouteMessage({.source_prefix = 64}, Oif(2)), {}},
      {"unreachable", RouteMessage({.type = RTN_UNREACHABLE}, Oif(1)), {}},
      {"local", RouteMessage({.table = RT_TABLE_LOCAL}, Oif(1)), {}},
      {"a rule's table", RouteMessage({.table = 100}, Oif(2)), {}},
      {"a rule's table, long", RouteMessage({}, Oif(2) + table_100), {}},
      {"table default", RouteMessage({.table = RT_TABLE_DEFAULT}, Oif(2)), {2}},
      {"dead", RouteMessage({.flags = RTNH_F_DEAD}, Oif(2)), {}},
      {"a cached copy", RouteMessage({.flags = RTM_F_CLONED}, Oif(2)), {}},
      {"several hops",
       RouteMessage({}, Attribute(RTA_MULTIPATH,
                                  Hop(2, 0, 8) + Hop(3, RTNH_F_DEAD) + Hop(4))),
       {2, 4}},
      {"a hop that claims nothing",
       RouteMessage({}, Attribute(RTA_MULTIPATH, Hop(2) + Hop(3, 0, -8))),
       {2}},
      {"a hop that claims too much",
       RouteMessage({}, Attribute(RTA_MULTIPATH, Hop(2) + Hop(3).substr(0, 6))),
       {2}},
      {"no link", RouteMessage({}, ""), {}},
      {"no message", "", {}},
  };
  for (const auto& row : kRows) {
    Links links;
    ParseDefaultRoutes(row.bytes, links);
    EXPECT_EQ(links, row.expect) << row.name;
  }
}

// If a dump is cut at any byte, the whole entries before the cut count, and
// nothing is read beyond the end (asan).
TEST(Netlink, ADumpMayBeCutAnywhere) {
  const std::string whole =
      Link(2, Named("eth0") + Kind("veth")) + Link(3, Named("eth1")) + Done();
  for (size_t size = 0; size <= whole.size(); ++size) {
    // The bytes are on the heap, so that asan reports a read beyond their end.
    const std::vector<char> cut(whole.begin(), whole.begin() + size);
    std::vector<NetworkLink> links;
    const NetlinkEnd end =
        ParseLinks(absl::string_view(cut.data(), cut.size()), links);
    EXPECT_LE(links.size(), 2u);
    EXPECT_EQ(end.done, size == whole.size()) << size;
  }
  // An attribute longer than its message, and one shorter than its own header.
  for (const uint16_t claimed : {uint16_t{400}, uint16_t{3}, uint16_t{0}}) {
    std::string bad = Named("eth0");
    std::memcpy(bad.data(), &claimed, sizeof(claimed));
    std::vector<NetworkLink> links;
    ParseLinks(Link(2, Attribute(IFLA_MTU, Bytes(uint32_t{1500})) + bad) +
                   Link(3, Named("eth1")),
               links);
    ASSERT_EQ(links.size(), 1u) << claimed;
    EXPECT_EQ(links[0].name, "eth1");
  }
  // A message shorter than its own header.
  std::string bad = Link(2, Named("eth0"));
  const uint32_t claimed = 8;
  std::memcpy(bad.data(), &claimed, sizeof(claimed));
  std::vector<NetworkLink> links;
  EXPECT_FALSE(ParseLinks(bad + Link(3, Named("eth1")), links).done);
  EXPECT_TRUE(links.empty());
}

TEST(Netlink, AnEndSaysWhy) {
  std::vector<NetworkLink> links;
  EXPECT_EQ(ParseLinks(Done(EPERM), links).error, EPERM);
  const NetlinkEnd error = ParseLinks(
      Message(NLMSG_ERROR, Bytes(-EOPNOTSUPP) + std::string(16, '\0')), links);
  EXPECT_TRUE(error.done);
  EXPECT_EQ(error.error, EOPNOTSUPP);
  ifinfomsg head{};
  head.ifi_index = 2;
  const NetlinkEnd changed = ParseLinks(
      Message(RTM_NEWLINK, Bytes(head) + Named("eth0"), NLM_F_DUMP_INTR),
      links);
  EXPECT_TRUE(changed.interrupted);
  EXPECT_FALSE(changed.done);
}

NetworkLink MakeLink(int index, const std::string& name, uint32_t flags,
                     int master = 0) {
  NetworkLink link;
  link.index = index;
  link.name = name;
  link.flags = flags;
  link.mtu = 1500;
  link.master = master;
  return link;
}

NetworkAddress MakeAddress(int link, const std::string& address) {
  NetworkAddress made;
  made.link = link;
  made.address.set_address(address);
  return made;
}

TEST(Network, InterfacesAreMadeOfLinksAddressesAndRoutes) {
  const std::vector<NetworkLink> links = {
      MakeLink(1, "lo", IFF_UP | IFF_LOOPBACK),
      MakeLink(2, "eth0", IFF_UP | IFF_RUNNING, 9),
      MakeLink(3, "eth\xc3\xa9", IFF_UP), MakeLink(4, "eth4", 0, 77),
      MakeLink(9, "bond0", IFF_UP)};
  const std::vector<NetworkAddress> addresses = {
      MakeAddress(9, "10.0.0.9"), MakeAddress(1, "127.0.0.1"),
      MakeAddress(9, "fd00::9"), MakeAddress(55, "10.5.5.5")};
  v1::Facts facts;
  AddInterfaces(links, addresses, {1, 9}, 10, facts);
  ASSERT_EQ(facts.interfaces_size(), 4);
  EXPECT_TRUE(facts.interfaces(0).loopback());
  EXPECT_FALSE(facts.interfaces(0).default_route()) << "lo leads nowhere";
  EXPECT_EQ(facts.interfaces(1).master(), "bond0");
  EXPECT_TRUE(facts.interfaces(1).running());
  EXPECT_EQ(facts.interfaces(2).name(), "eth4");
  EXPECT_EQ(facts.interfaces(2).master(), "") << "of another namespace";
  EXPECT_FALSE(facts.interfaces(2).up());
  const v1::Interface& bond = facts.interfaces(3);
  EXPECT_TRUE(bond.default_route());
  EXPECT_EQ(bond.mtu(), 1500u);
  ASSERT_EQ(bond.addresses_size(), 2);
  EXPECT_EQ(bond.addresses(0).address(), "10.0.0.9");
  EXPECT_EQ(bond.addresses(1).address(), "fd00::9");
  ASSERT_EQ(facts.missing_size(), 1) << "a name that no Hello carries";
  EXPECT_EQ(facts.missing(0).fact(), "interfaces.name");

  v1::Facts few;
  AddInterfaces(links, addresses, {}, 2, few);
  ASSERT_EQ(few.interfaces_size(), 2);
  EXPECT_EQ(few.interfaces(0).name(), "lo");
  EXPECT_EQ(few.interfaces(1).name(), "bond0");
}

// This happens if one interface is renamed and another is made during the dump.
TEST(Network, OfTwoInterfacesOfOneNameTheFirstCounts) {
  v1::Facts facts;
  AddInterfaces({MakeLink(1, "eth0", IFF_UP), MakeLink(2, "eth0", 0)},
                {MakeAddress(1, "10.0.0.1"), MakeAddress(2, "10.0.0.2")}, {},
                10, facts);
  ASSERT_EQ(facts.interfaces_size(), 1);
  EXPECT_EQ(facts.interfaces(0).addresses(0).address(), "10.0.0.1");
  EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
}

// Compares with what this machine's kernel reports through another interface.
TEST(Network, TheKernelAnswersForThisNamespace) {
  v1::Facts facts;
  GatherNetwork(facts);
  EXPECT_EQ(facts.missing_size(), 0) << facts.ShortDebugString();
  struct if_nameindex* all = if_nameindex();
  ASSERT_NE(all, nullptr);
  std::set<std::string> expect;
  for (auto* at = all; at->if_name != nullptr; ++at) expect.insert(at->if_name);
  if_freenameindex(all);
  std::set<std::string> found;
  for (const auto& interface : facts.interfaces()) {
    found.insert(interface.name());
    EXPECT_GT(interface.mtu(), 0u) << interface.name();
  }
  EXPECT_EQ(found, expect);
}

TEST(Network, TakesThePlaceOfWhatWasKnown) {
  v1::Facts now;
  GatherNetwork(now);
  ASSERT_GT(now.interfaces_size(), 0);
  v1::Facts facts = now;
  facts.mutable_interfaces(0)->set_name("gone0");
  facts.set_probe_port(7);
  AddMissing(facts, "interfaces.default_route", "no answer", "");
  AddMissing(facts, "gpus", "none", "");
  TakeNetwork(now, facts);
  EXPECT_EQ(facts.interfaces(0).name(), now.interfaces(0).name());
  EXPECT_EQ(facts.probe_port(), 7u);
  ASSERT_EQ(facts.missing_size(), 1);
  EXPECT_EQ(facts.missing(0).fact(), "gpus");
}

TEST(Network, WhatTheKernelDoesNotTellStaysAsItWas) {
  const auto with = [](const std::string& at, const std::string& missing) {
    v1::Facts facts;
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name("eth0");
    interface.add_addresses()->set_address(at);
    if (!missing.empty()) AddMissing(facts, missing, "no answer", "");
    return facts;
  };
  v1::Facts known = with("10.0.0.1", "");
  known.mutable_interfaces(0)->set_default_route(true);
  known.mutable_interfaces(0)->set_speed_mbps(100);
  struct Row {
    const char* missing;
    const char* address;
    bool default_route;
    uint32_t speed;
  };
  for (const Row& row : {
           Row{"", "10.0.0.2", false, 0},
           Row{"interfaces", "10.0.0.1", true, 100},
           Row{"interfaces.addresses", "10.0.0.1", true, 100},
           Row{"interfaces.default_route", "10.0.0.2", true, 0},
           Row{"interfaces.speed_mbps", "10.0.0.2", false, 100},
           // A missing fact about another interface.
           Row{"interfaces.name", "10.0.0.2", false, 0},
       }) {
    v1::Facts facts = known;
    TakeNetwork(with("10.0.0.2", row.missing), facts);
    ASSERT_EQ(facts.interfaces_size(), 1) << row.missing;
    const v1::Interface& eth0 = facts.interfaces(0);
    EXPECT_EQ(eth0.addresses(0).address(), row.address) << row.missing;
    EXPECT_EQ(eth0.default_route(), row.default_route) << row.missing;
    EXPECT_EQ(eth0.speed_mbps(), row.speed) << row.missing;
  }
}

}  // namespace
}  // namespace rollcall
