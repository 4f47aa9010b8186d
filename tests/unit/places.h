// Folders of this checkout and this build. Only places.cc is compiled with
// their paths, so that ccache finds all else for another checkout.
#ifndef ROLLCALL_TESTS_UNIT_PLACES_H_
#define ROLLCALL_TESTS_UNIT_PLACES_H_

namespace rollcall {

// Device libraries of tests/fakes; rollcall_test_fakes() has them built.
extern const char kFakesFolder[];
// Machines as text.
extern const char kFactsFolder[];
// Answers of real services.
extern const char kRecordedFolder[];

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_PLACES_H_
