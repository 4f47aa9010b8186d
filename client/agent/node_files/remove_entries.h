// Removes folders in which ranks of another user may have made anything, and
// may still change it: links, pipes, folders nested deeper than a path or the
// limit on descriptors permits.
//
// No link is ever followed. The caller's folder must be one in which only this
// process's user can make and rename entries.
//
// Thread rule: any thread, one for each folder.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_

#include <set>
#include <string>

namespace rollcall {

// Removes the entry `name` of the open folder, with everything in it. Needs two
// descriptors at any depth. Subfolders are moved into `folder` while it works;
// those that cannot be removed stay there. False: something is left, also after
// many thousand subfolders. Safe to repeat; nothing to remove is no failure.
bool RemoveEntry(int folder, const std::string& name);

// The same for all entries of the open folder, except those in `kept`.
bool RemoveEntries(int folder, const std::set<std::string>& kept = {});

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_
