// Feed: a fuzzer's bytes read as a script, front to back.
//
// Reads never fail: a feed that has run out gives zeros and empty texts. The
// format is one that seeds.cc can write and that stays aligned under small
// changes: a byte is a byte, a small number is one byte, a text is its length
// and its bytes.
#ifndef ROLLCALL_TESTS_FUZZ_FEED_H_
#define ROLLCALL_TESTS_FUZZ_FEED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall {

class Feed {
 public:
  Feed(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  bool Flag() { return (Byte() & 1) != 0; }

  // 0 to count - 1.
  uint32_t Pick(uint32_t count) { return Byte() % count; }

  // Most bytes are their own value. The highest stand for the numbers at which
  // counters break; 0xFF is followed by any number, in eight bytes.
  uint64_t Number() {
    const uint8_t byte = Byte();
    switch (byte) {
      case 0xF8:
        return 0x7FFFFFFF;
      case 0xF9:
        return 0x80000000;
      case 0xFA:
        return 0xFFFFFFFF;
      case 0xFB:
        return uint64_t{1} << 32;
      case 0xFC:
        return uint64_t{1} << 62;
      case 0xFD:
        return uint64_t{1} << 63;
      case 0xFE:
        return ~uint64_t{0};
      case 0xFF: {
        uint64_t number = 0;
        for (int i = 0; i < 8; ++i) number = number << 8 | Byte();
        return number;
      }
      default:
        return byte;
    }
  }

  // A text after its length in two bytes, the higher first.
  std::string_view Text() {
    const size_t high = Byte();
    const size_t low = Byte();
    const size_t size = std::min<size_t>(high << 8 | low, rest_.size());
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  std::string String() { return std::string(Text()); }

  // All bytes that are left.
  std::string_view Rest() {
    const std::string_view rest = rest_;
    rest_ = {};
    return rest;
  }

 private:
  std::string_view rest_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_FEED_H_
