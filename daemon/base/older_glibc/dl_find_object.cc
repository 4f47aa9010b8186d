// For static builds only. To find a function's unwind tables, libgcc calls
// _dl_find_object, which glibc has since 2.35. With this definition, the binary
// starts on 2.34 as well (RHEL 9, Amazon Linux 2023).
//
// It is slower than glibc's, which takes no lock. That matters only to programs
// that throw exceptions all the time.
#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

// For dl_iterate_phdr. Returns 1 if found, 0 to go on, -1 if the object that
// has the address has no tables.
int Look(dl_phdr_info* object, size_t, void* argument) {
  const Search& search = *static_cast<const Search*>(argument);
  const ElfW(Phdr)* code = nullptr;
  const ElfW(Phdr)* tables = nullptr;
  for (const ElfW(Phdr)* part = object->dlpi_phdr;
       part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
    const uintptr_t begin = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) tables = part;
    if (part->p_type == PT_LOAD && search.address >= begin &&
        search.address - begin < part->p_memsz) {
      code = part;
    }
  }
  if (code == nullptr || tables == nullptr) return code != nullptr ? -1 : 0;
  const auto at = [object](uintptr_t offset) {
    return reinterpret_cast<void*>(object->dlpi_addr + offset);
  };
  *search.found = {};
  search.found->dlfo_map_start = at(code->p_vaddr);
  search.found->dlfo_map_end = at(code->p_vaddr + code->p_memsz);
  search.found->dlfo_eh_frame = at(tables->p_vaddr);
  return 1;
}

}  // namespace

// Hidden: only this binary's own unwinder uses it.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(
    void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(Look, &search) == 1 ? 0 : -1;
}

#endif  // __GLIBC_PREREQ(2, 35)
