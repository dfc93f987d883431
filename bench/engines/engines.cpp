#include "engines/engine.h"

namespace quire::bench {

std::vector<std::string> EngineNames() {
  std::vector<std::string> names = {"lsm"};
#ifdef QUIRE_HAVE_ROCKSDB
  names.insert(names.end(), {"rocksdb", "rocksdb-blob"});
#endif
#ifdef QUIRE_HAVE_LEVELDB
  names.push_back("leveldb");
#endif
  return names;
}

Result<std::unique_ptr<Engine>> OpenEngine(const std::string& name, const EngineOptions& options) {
  if (name == "lsm") return OpenLsmEngine(options);
#ifdef QUIRE_HAVE_ROCKSDB
  if (name == "rocksdb") return OpenRocksDbEngine(options, false);
  if (name == "rocksdb-blob") return OpenRocksDbEngine(options, true);
#endif
#ifdef QUIRE_HAVE_LEVELDB
  if (name == "leveldb") return OpenLevelDbEngine(options);
#endif
  return Status(Code::kUnsupported, "this build has no engine '" + name +
                                        "': install its development package and build again");
}

}  // namespace quire::bench
