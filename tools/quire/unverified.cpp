#include "tools/quire/unverified.h"

#include <algorithm>
#include <iostream>

#include "io/files/machine.h"
#include "tools/quire/contents.h"

namespace quire::tool {
namespace {

// Returns whether a database is a checkpoint below `home` that was read like a database.
bool HoldsOneOf(const std::vector<DatabaseOnDisk>& databases, const std::string& home) {
  return std::any_of(databases.begin(), databases.end(), [&](const DatabaseOnDisk& place) {
    return place.directory.starts_with(home + "/");
  });
}

}  // namespace

void Unverified::Add(const char* kind, const std::string& directory, const std::string& command) {
  list_.push_back({{"kind", kind}, {"directory", directory}, {"command", command}});
}

void Unverified::Add(io::FileSystem& fs, const std::string& path,
                     const std::vector<DatabaseOnDisk>& databases) {
  const Contents contents = ContentsOf(fs, path);
  for (const std::string& dataset : contents.datasets) {
    Add("dataset", dataset, "quire dataset verify " + dataset);
  }
  for (const std::string& home : contents.checkpoints) {
    if (HoldsOneOf(databases, home)) continue;
    Add("checkpoints", home, "quire checkpoint verify " + home);
  }
  for (const std::string& store : contents.stores) {
    Add("stream", store,
        "quire stream verify " + io::DirectoryOf(store) + " " + LastPart(store));
  }
}

void Unverified::AddTo(Json* report) const {
  if (!list_.empty()) (*report)["not_verified"] = list_;
}

void Unverified::Print() const {
  for (const Json& one : list_) {
    std::cerr << "quire: not verified: " << Text(one["kind"]) << " "
              << LastPart(Text(one["directory"])) << " (" << Text(one["command"]) << ")\n";
  }
}

}  // namespace quire::tool
