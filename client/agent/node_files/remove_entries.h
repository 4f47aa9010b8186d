// Removes folders in which ranks of another user may have made anything and may
// still change it: links, pipes, folders nested deeper than a path or the limit
// on descriptors permits.
//
// Never follows a link. The caller's folder must be one in which only this
// process's user can make and rename entries.
//
// Thread rule: any thread, but one at a time for each folder.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_

#include <set>
#include <string>

namespace rollcall {

// Removes the entry `name` of the open folder and everything in it. Needs two
// descriptors at any depth. Moves subfolders into `folder` meanwhile; those
// that cannot be removed stay there. False: something is left, or there were
// more than 65536 subfolders. Safe to repeat; it is no failure if there is
// nothing to remove.
bool RemoveEntry(int folder, const std::string& name);

// Does the same for all entries of the open folder, except those in `kept`.
bool RemoveEntries(int folder, const std::set<std::string>& kept = {});

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_REMOVE_ENTRIES_H_
