#include "io/paths/made_paths.h"

#include <new>
#include <utility>

namespace quire::io {

MadePaths::~MadePaths() {
  Remove();
}

MadePaths& MadePaths::operator=(MadePaths&& other) noexcept {
  Remove();
  paths_ = std::exchange(other.paths_, {});
  return *this;
}

Status MadePaths::AddFileIfAbsent(FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(path));
  if (!there) AddFile(fs, path);
  return Status();
}

Status MadePaths::MakeDirectory(FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(path));
  if (!there) AddDirectory(fs, path);
  return MakeDurableDirectory(fs, path);
}

Result<std::unique_ptr<FileLock>> MadePaths::Lock(FileSystem& fs, const std::string& path,
                                                  const std::string& holder) {
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(path));
  paths_.reserve(paths_.size() + 1);  // so that noting the locked path needs no memory
  std::string noted = path;
  QUIRE_ASSIGN_OR_RETURN(auto lock, fs.Lock(path, holder));
  if (!there) AddFile(fs, std::move(noted));
  return lock;
}

void MadePaths::Remove() noexcept {
  for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) {
    try {
      static_cast<void>(path->is_directory ? path->fs->RemoveDirectory(path->path)
                                           : path->fs->Unlink(path->path));
    } catch (const std::bad_alloc&) {  // then it stays
    }
  }
  paths_.clear();
}

}  // namespace quire::io
