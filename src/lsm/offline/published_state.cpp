#include "lsm/offline/published_state.h"

#include <utility>

#include "lsm/version/recovery.h"

namespace quire::lsm {
namespace {

// Each attempt keeps the tables that it could open: so it soon catches up with a writer that
// replaces some tables while others are opened.
constexpr int kLooksMax = 64;

bool SameStore(const PublishedState* former, const Manifest& manifest) {
  return former != nullptr && former->manifest.store_id == manifest.store_id;
}

}  // namespace

// Beside a writer, the manifest that was read is a published state, whatever was published since.
// Without a writer the log was read, too: an opener that came meanwhile wrote a manifest before it
// changed the log.
Result<std::shared_ptr<const PublishedState>> PublishedStateLoader::Next(
    const PublishedState* former) const {
  KnownTables known;
  if (former != nullptr) known = TablesOf(former->version.runs);
  for (int look = 0; look < kLooksMax; ++look) {
    auto view = std::make_shared<PublishedState>();
    QUIRE_RETURN_IF_ERROR(ReadStored(&view->manifest));
    const Status seen = Look(former, &known, view.get());
    if (seen.ok() && !view->writer.empty()) return std::shared_ptr<const PublishedState>(view);
    QUIRE_ASSIGN_OR_RETURN(const bool same, StillStored(fs_, directory_, view->manifest));
    if (!same) continue;
    if (!seen.ok()) return Explain(seen, view->manifest);
    return std::shared_ptr<const PublishedState>(view);
  }
  return Status(Code::kBusy,
                "the database in " + directory_ + " changed at each of many looks; try again");
}

Status PublishedStateLoader::ReadStored(Manifest* manifest) const {
  Result<Manifest> stored = ReadManifest(fs_, directory_);
  if (stored.ok()) {
    *manifest = std::move(*stored);
    return Status();
  }
  if (stored.status().code() != Code::kNotFound) return stored.status();
  const Result<DirectoryContents> contents = ReadDirectory(fs_, directory_);
  if (contents.status().code() != Code::kNotFound) {
    QUIRE_RETURN_IF_ERROR(contents.status());
    // A manifest that exists now was created meanwhile, by the first open.
    if (!contents->has_manifest) QUIRE_RETURN_IF_ERROR(CheckNoRemains(*contents, directory_));
  }
  return Status(Code::kNotFound, "there is no database in " + directory_);
}

// Reads everything of `view` except the manifest, which it has.
Status PublishedStateLoader::Look(const PublishedState* former, KnownTables* known,
                                  PublishedState* view) const {
  QUIRE_ASSIGN_OR_RETURN(view->writer, fs_.LockHolder(LockPath(directory_)));
  // Segments of another database may have the same names.
  view->values =
      SameStore(former, view->manifest) ? former->values : ValueReader::Create(fs_, directory_);
  QUIRE_ASSIGN_OR_RETURN(
      view->version.runs,
      OpenRuns({&fs_, directory_, &options_, cache_, nullptr}, view->manifest.runs, known));
  return AddLog(former, view);
}

Status PublishedStateLoader::AddLog(const PublishedState* former, PublishedState* view) const {
  const bool same_store = SameStore(former, view->manifest);
  const bool unchanged = same_store && former->manifest.edition == view->manifest.edition;
  if (view->writer.empty() && !(unchanged && former->has_log)) return ReplayLog(view);
  if (same_store) KeepLog(*former, view);
  return Status();
}

// What is in no table yet. A writer that came since recovered the same.
void PublishedStateLoader::KeepLog(const PublishedState& former, PublishedState* view) const {
  for (const std::shared_ptr<PooledMemTable>& memory : former.version.immutables) {
    if (memory->base_lsn() < view->manifest.flushed_lsn) continue;
    view->version.immutables.push_back(memory);
  }
  view->log_records = view->version.immutables.empty() ? 0 : former.log_records;
  view->log_holes = former.log_holes;
  view->has_log = former.has_log && former.manifest.edition == view->manifest.edition;
}

Status PublishedStateLoader::ReplayLog(PublishedState* view) const {
  QUIRE_ASSIGN_OR_RETURN(const DirectoryContents contents, ReadDirectory(fs_, directory_));
  QUIRE_RETURN_IF_ERROR(CheckListed(contents, view->manifest, directory_));
  QUIRE_ASSIGN_OR_RETURN(
      const RecoveredLog log,
      CopyLog(fs_, directory_, view->manifest, contents.logs, *view->values));
  view->version.immutables.assign(log.handles.rbegin(), log.handles.rend());
  view->log_records = log.records;
  view->log_holes = log.holes;
  view->has_log = true;
  return Status();
}

// A look that failed though the manifest stayed the same. A file that is not there is damage then.
Status PublishedStateLoader::Explain(const Status& failure, const Manifest& manifest) const {
  if (failure.code() != Code::kNotFound) return failure;
  QUIRE_ASSIGN_OR_RETURN(const DirectoryContents contents, ReadDirectory(fs_, directory_));
  QUIRE_RETURN_IF_ERROR(CheckListed(contents, manifest, directory_));
  return Status(Code::kBusy, "files of the database in " + directory_ +
                                 " come and go; try again (" + failure.message() + ")");
}

}  // namespace quire::lsm
