#include "lsm/offline/lsm_engine.h"

#include <utility>

#include "lsm/db/db.h"
#include "lsm/offline/part_verifier.h"
#include "lsm/offline/reader.h"
#include "lsm/peer/peer_reader.h"
#include "lsm/version/manifest.h"

namespace quire::lsm {
namespace {

class LsmParts final : public engine::StoredParts {
 public:
  Result<std::shared_ptr<engine::StoredPart>> Open(
      io::FileSystem& fs, const std::string& directory,
      const engine::ReaderOptions& options) const override {
    QUIRE_ASSIGN_OR_RETURN(auto reader, Reader::Open(fs, directory, options));
    return std::shared_ptr<engine::StoredPart>(std::move(reader));
  }
  Result<std::unique_ptr<engine::PeerReader>> OpenPeer(
      io::FileSystem& fs, const engine::PeerAddress& address,
      const engine::ReaderOptions& options) const override {
    return OpenPeerReader(fs, address, options);
  }
  std::unique_ptr<engine::PartRemoval> NewRemoval(
      io::FileSystem& fs, std::string directory,
      std::unique_ptr<io::FileLock> lock) const override {
    return std::make_unique<DbRemoval>(fs, std::move(directory), std::move(lock));
  }
  std::unique_ptr<engine::PartVerifier> NewVerifier(io::FileSystem& fs,
                                                    std::string directory) const override {
    return std::make_unique<TablesVerifier>(fs, std::move(directory));
  }
  Status GiveNewStoreId(io::FileSystem& fs, const std::string& directory) const override {
    return lsm::GiveNewStoreId(fs, directory);
  }
  std::string marker() const override { return ManifestName(); }
  std::string LockPath(const std::string& directory) const override {
    return lsm::LockPath(directory);
  }
};

class LsmKind final : public engine::EngineKind {
 public:
  const char* name() const override { return "lsm"; }
  engine::Capabilities capabilities() const override {
    return {.ordered = true,
            .snapshots = true,
            .atomic_batches = true,
            .persistent = true,
            .neighbour_readable = true,
            .capturable = true,
            .backable = true};
  }
  Result<std::unique_ptr<engine::StorageEngine>> Open(const engine::EngineEnvironment& environment,
                                                      const std::string& directory,
                                                      const StorageOptions& options,
                                                      engine::OpenFlags flags) const override {
    QUIRE_ASSIGN_OR_RETURN(auto db, Db::Open(environment, directory, options, flags));
    return std::unique_ptr<engine::StorageEngine>(std::move(db));
  }
  const engine::StoredParts* stored_parts() const override { return &parts_; }

 private:
  LsmParts parts_;  // no state
};

}  // namespace

const engine::EngineKind& LsmEngine() {
  // Never destroyed: readers and databases may end after static objects.
  static const LsmKind* const kind = new LsmKind;
  return *kind;
}

}  // namespace quire::lsm
