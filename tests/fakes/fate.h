// Tells a fake library what to do in a call. The environment variable has a
// list of "FUNCTION[@DEVICE]=WHAT", separated by ';', where WHAT is error:N,
// hang or crash. It may also have "NAME=VALUE" for settings of the fake itself.
#ifndef ROLLCALL_TESTS_FAKES_FATE_H_
#define ROLLCALL_TESTS_FAKES_FATE_H_

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

// Returns the value of `name` in `variable`, or "" if it is not there.
inline std::string FateWord(const char* variable, const std::string& name) {
  const char* text = getenv(variable);
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    const std::string entry = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

// Returns the error that the call must return, or 0. Does not return if the
// call must hang or crash.
inline int Fate(const char* variable, const std::string& function,
                const std::string& device) {
  std::string word = FateWord(variable, function + "@" + device);
  if (word.empty()) word = FateWord(variable, function);
  if (word == "crash") raise(SIGABRT);
  while (word == "hang") pause();
  return word.rfind("error:", 0) == 0 ? atoi(word.c_str() + 6) : 0;
}

#endif  // ROLLCALL_TESTS_FAKES_FATE_H_
