#include "tests/fuzz/oracle.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/strings/escaping.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kShownBytesMax = 4096;

bool Multiline(const FieldDescriptor& field) {
  return field.name() == "stderr_tail" || field.name() == "error_file" ||
         field.name() == "detail";
}

void ExpectField(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const int count =
      field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  const bool text = field.type() == FieldDescriptor::TYPE_STRING;
  for (int i = 0; i < count; ++i) {
    if (text) {
      std::string scratch;
      const std::string& value =
          field.is_repeated()
              ? reflection.GetRepeatedStringReference(message, &field, i,
                                                      &scratch)
              : reflection.GetStringReference(message, &field, &scratch);
      ExpectPrintable(field.full_name().c_str(), value, Multiline(field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ExpectPrintable(field.is_repeated()
                          ? reflection.GetRepeatedMessage(message, &field, i)
                          : reflection.GetMessage(message, &field));
    }
  }
}

}  // namespace

void Broken(const char* what, std::string_view found) {
  std::fprintf(
      stderr, "fuzz: broken: %s\n  found: %s\n", what,
      absl::CHexEscape(std::string(found.substr(0, kShownBytesMax))).c_str());
  std::abort();
}

void ExpectPrintable(const char* what, std::string_view text, bool multiline) {
  bool plain = true;
  for (const char c : text) plain = plain && c >= 0x20 && c < 0x7F;
  if (plain) return;
  Expect(Printable(text, text.size(), multiline) == text, what, text);
}

void ExpectPrintable(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) ExpectField(message, *field);
}

void ExpectSerializes(const Message& message) {
  std::string bytes;
  Expect(message.SerializeToString(&bytes), "a message serializes");
  const std::unique_ptr<Message> again(message.New());
  Expect(again->ParseFromString(bytes), "a message parses again", bytes);
}

}  // namespace rollcall
