// Makes a copy of a shared library that lacks one symbol.
#ifndef ROLLCALL_TESTS_FAKES_WITHOUT_SYMBOL_H_
#define ROLLCALL_TESTS_FAKES_WITHOUT_SYMBOL_H_

#include <fstream>
#include <iterator>
#include <string>

namespace rollcall {

// Writes `library` to `copy` and renames `symbol` in it, so that the dynamic
// linker still finds the symbol's hash, but another name. Returns false if the
// library does not have the symbol or the copy cannot be written.
inline bool CopyWithoutSymbol(const std::string& library,
                              const std::string& symbol,
                              const std::string& copy) {
  std::ifstream in(library, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string name = '\0' + symbol + '\0';
  bool found = false;
  for (size_t at = 0; (at = bytes.find(name, at)) != std::string::npos;) {
    at += symbol.size();
    bytes[at] = bytes[at] == 'X' ? 'Y' : 'X';
    found = true;
  }
  std::ofstream out(copy, std::ios::binary);
  out << bytes;
  return found && out.good();
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FAKES_WITHOUT_SYMBOL_H_
