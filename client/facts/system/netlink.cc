#include "client/facts/system/netlink.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/address_text.h"

namespace rollcall {
namespace {

constexpr size_t kLinksMax = 4096;
constexpr size_t kAddressesMax = 16384;
// The limit for one dump: enough for some hundred thousand routes. The default
// route of IPv4 comes first.
constexpr size_t kDumpBytesMax = 32 << 20;
// Larger than any part of a dump: the kernel makes parts as large as the
// reader's buffer, but at most 32 KiB (NLMSG_GOODSIZE, and netlink_dump in
// af_netlink.c).
constexpr size_t kPartBytes = 64 << 10;

// The structure at the front of `bytes`; nullopt: there are too few bytes.
template <typename T>
std::optional<T> Front(absl::string_view bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Removes `size` bytes, and their padding to a multiple of 4, from the front.
void Skip(absl::string_view& bytes, size_t size) {
  const size_t aligned = (size + 3) & ~size_t{3};
  bytes.remove_prefix(std::min(aligned, bytes.size()));
}

// Iterates over the attributes of a message.
class Attributes {
 public:
  explicit Attributes(absl::string_view bytes) : rest_(bytes) {}

  bool Next() {
    const auto head = Front<rtattr>(rest_);
    if (!head || head->rta_len < sizeof(rtattr) ||
        head->rta_len > rest_.size()) {
      return false;
    }
    type_ = head->rta_type & NLA_TYPE_MASK;
    value_ = rest_.substr(sizeof(rtattr), head->rta_len - sizeof(rtattr));
    Skip(rest_, head->rta_len);
    return true;
  }

  int type() const { return type_; }
  absl::string_view value() const { return value_; }
  template <typename T>
  T Number() const {
    return Front<T>(value_).value_or(T{});
  }
  // The payload up to its terminating zero.
  std::string Text() const {
    return std::string(value_.substr(0, value_.find('\0')));
  }

 private:
  absl::string_view rest_;
  int type_ = 0;
  absl::string_view value_;
};

// Calls `take` with the payload of each message of type `wanted`.
template <typename Take>
NetlinkEnd EachMessage(absl::string_view bytes, uint16_t wanted, Take take) {
  NetlinkEnd end;
  while (const auto head = Front<nlmsghdr>(bytes)) {
    if (head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > bytes.size()) {
      break;
    }
    const absl::string_view payload =
        bytes.substr(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));
    if ((head->nlmsg_flags & NLM_F_DUMP_INTR) != 0) end.interrupted = true;
    if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) {
      // The payload of both begins with a negative errno; 0: no error.
      end.error = -Front<int>(payload).value_or(0);
      end.done = true;
      break;
    }
    if (head->nlmsg_type == wanted) take(payload);
    Skip(bytes, head->nlmsg_len);
  }
  return end;
}

std::string LinkKind(absl::string_view linkinfo) {
  Attributes nested(linkinfo);
  while (nested.Next()) {
    if (nested.type() == IFLA_INFO_KIND) return nested.Text();
  }
  return "";
}

// Adds the interfaces of a multipath route's next hops.
void TakeNextHops(absl::string_view hops, std::set<int>& links) {
  while (const auto hop = Front<rtnexthop>(hops)) {
    if (hop->rtnh_len < sizeof(rtnexthop) || hop->rtnh_len > hops.size()) {
      return;
    }
    if ((hop->rtnh_flags & RTNH_F_DEAD) == 0 && hop->rtnh_ifindex > 0) {
      links.insert(hop->rtnh_ifindex);
    }
    Skip(hops, hop->rtnh_len);
  }
}

void TakeRoute(absl::string_view payload, std::set<int>& links) {
  const auto route = Front<rtmsg>(payload);
  if (!route || route->rtm_dst_len != 0 || route->rtm_src_len != 0 ||
      route->rtm_type != RTN_UNICAST ||
      (route->rtm_flags & (RTM_F_CLONED | RTNH_F_DEAD)) != 0) {
    return;
  }
  uint32_t table = route->rtm_table;
  int link = 0;
  absl::string_view hops;
  Skip(payload, sizeof(rtmsg));
  Attributes attributes(payload);
  while (attributes.Next()) {
    if (attributes.type() == RTA_TABLE) table = attributes.Number<uint32_t>();
    if (attributes.type() == RTA_OIF) link = attributes.Number<int>();
    if (attributes.type() == RTA_MULTIPATH) hops = attributes.value();
  }
  // Other tables apply only to some sources, so their routes are not default
  // routes.
  if (table != RT_TABLE_MAIN && table != RT_TABLE_DEFAULT) return;
  if (link > 0) links.insert(link);
  TakeNextHops(hops, links);
}

NetlinkEnd TakeLinks(absl::string_view bytes, uint16_t type,
                     std::vector<NetworkLink>& links) {
  return EachMessage(bytes, type, [&](absl::string_view payload) {
    const auto head = Front<ifinfomsg>(payload);
    // Entries of AF_BRIDGE describe a bridge's ports again.
    if (!head || head->ifi_family != AF_UNSPEC || links.size() >= kLinksMax) {
      return;
    }
    NetworkLink link;
    link.index = head->ifi_index;
    link.flags = head->ifi_flags;
    link.hardware = head->ifi_type;
    Skip(payload, sizeof(ifinfomsg));
    Attributes attributes(payload);
    while (attributes.Next()) {
      switch (attributes.type()) {
        case IFLA_IFNAME:
          link.name = attributes.Text();
          break;
        case IFLA_MTU:
          link.mtu = attributes.Number<uint32_t>();
          break;
        case IFLA_MASTER:
          link.master = attributes.Number<int>();
          break;
        case IFLA_LINKINFO:
          link.kind = LinkKind(attributes.value());
          break;
        default:
          break;
      }
    }
    if (link.index > 0 && !link.name.empty()) links.push_back(std::move(link));
  });
}

}  // namespace

NetlinkEnd ParseLinks(absl::string_view bytes,
                      std::vector<NetworkLink>& links) {
  return TakeLinks(bytes, RTM_NEWLINK, links);
}

NetlinkEnd ParseGoneLinks(absl::string_view bytes,
                          std::vector<NetworkLink>& links) {
  return TakeLinks(bytes, RTM_DELLINK, links);
}

NetlinkEnd ParseAddresses(absl::string_view bytes,
                          std::vector<NetworkAddress>& addresses) {
  return EachMessage(bytes, RTM_NEWADDR, [&](absl::string_view payload) {
    const auto head = Front<ifaddrmsg>(payload);
    if (!head || addresses.size() >= kAddressesMax) return;
    if (head->ifa_family != AF_INET && head->ifa_family != AF_INET6) return;
    const size_t size =
        head->ifa_family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
    const auto text = [&](absl::string_view bytes) {
      return bytes.size() == size ? AddressText(bytes) : "";
    };
    uint32_t flags = head->ifa_flags;
    std::string own;
    std::string address;
    Skip(payload, sizeof(ifaddrmsg));
    Attributes attributes(payload);
    while (attributes.Next()) {
      switch (attributes.type()) {
        case IFA_LOCAL:
          own = text(attributes.value());
          break;
        case IFA_ADDRESS:
          address = text(attributes.value());
          break;
        case IFA_FLAGS:
          flags = attributes.Number<uint32_t>();
          break;
        default:
          break;
      }
    }
    // On a point-to-point link IFA_ADDRESS is the peer's address.
    if (own.empty()) own = address;
    const int bits = head->ifa_family == AF_INET ? 32 : 128;
    if (own.empty() || (flags & IFA_F_DADFAILED) != 0 ||
        head->ifa_prefixlen > bits) {
      return;
    }
    NetworkAddress found;
    found.link = static_cast<int>(head->ifa_index);
    found.address.set_address(own);
    found.address.set_prefix_length(head->ifa_prefixlen);
    addresses.push_back(std::move(found));
  });
}

NetlinkEnd ParseDefaultRoutes(absl::string_view bytes, std::set<int>& links) {
  return EachMessage(bytes, RTM_NEWROUTE, [&](absl::string_view payload) {
    TakeRoute(payload, links);
  });
}

std::string DeviceType(const NetworkLink& link) {
  if (!link.kind.empty()) return link.kind;
  return link.hardware == ARPHRD_INFINIBAND ? "ipoib" : "";
}

absl::Status DumpNetlink(
    uint16_t type, unsigned char family,
    const std::function<NetlinkEnd(absl::string_view)>& parse) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot open a netlink socket: ", std::strerror(errno)));
  }
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } const closer{fd};
  const timeval patience{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  struct {
    nlmsghdr head;
    rtgenmsg body;
    char padding[3];
  } request{};
  request.head.nlmsg_len = NLMSG_LENGTH(sizeof(rtgenmsg));
  request.head.nlmsg_type = type;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.head.nlmsg_seq = 1;
  request.body.rtgen_family = family;
  if (send(fd, &request, request.head.nlmsg_len, 0) < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot send a netlink request: ", std::strerror(errno)));
  }
  std::string part(kPartBytes, '\0');
  NetlinkEnd all;
  for (size_t bytes = 0; !all.done && bytes < kDumpBytesMax;) {
    const ssize_t n = recv(fd, part.data(), part.size(), MSG_TRUNC);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::UnavailableError(absl::StrCat(
          "no netlink answer: ", n < 0 ? std::strerror(errno) : "end of file"));
    }
    if (static_cast<size_t>(n) > part.size()) {
      return absl::DataLossError("the netlink answer is too large");
    }
    bytes += static_cast<size_t>(n);
    const NetlinkEnd end =
        parse(absl::string_view(part).substr(0, static_cast<size_t>(n)));
    all.done = end.done;
    all.interrupted |= end.interrupted;
    all.error = end.error;
  }
  if (!all.done) return absl::DataLossError("the kernel's table is too large");
  if (all.error != 0) {
    return absl::UnavailableError(
        absl::StrCat("netlink dump failed: ", std::strerror(all.error)));
  }
  if (all.interrupted) return absl::AbortedError("the table kept changing");
  return absl::OkStatus();
}

}  // namespace rollcall
