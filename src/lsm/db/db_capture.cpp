// Captures: what there is now, held for a checkpoint.
#include <algorithm>
#include <utility>

#include "base/sync_point.h"
#include "log/segment.h"
#include "lsm/db/db_impl.h"
#include "lsm/version/recovery.h"

namespace quire::lsm {
namespace {

// A flush of another thread may put values of the open segment into a table, again and again.
constexpr int kCaptureAttempts = 100;

}  // namespace

class DbImpl::CaptureImpl final : public Capture {
 public:
  CaptureImpl(std::shared_ptr<const Version> version, const Manifest& manifest)
      : version_(std::move(version)), manifest_(EncodeManifest(manifest)) {
    for (const std::vector<table::TableInfo>& run : manifest.runs) {
      for (const table::TableInfo& table : run) {
        files_.push_back({TableName(table.ssid), table.file_bytes, table.file_id});
      }
    }
    for (const StoredSegment& segment : manifest.value_segments) {
      files_.push_back({ValueSegmentName(segment.id), segment.file_bytes, 0});
      segments_.push_back(files_.size() - 1);
    }
  }
  // The identities of value segments are in the files alone.
  Status ReadIdentities(io::FileSystem& fs, const std::string& directory) {
    for (const size_t at : segments_) {
      const std::string path = directory + "/" + files_[at].name;
      const Result<log::SegmentHeader> header = log::ReadSegmentHeader(fs, path);
      if (header.status().code() == Code::kNotFound) return MissingFile(path, "a value segment");
      QUIRE_RETURN_IF_ERROR(header.status());
      files_[at].identity = header->generation;
    }
    return Status();
  }
  const std::vector<File>& files() const override { return files_; }
  const std::string& manifest() const override { return manifest_; }

 private:
  const std::shared_ptr<const Version> version_;  // whose handles keep the files
  const std::string manifest_;
  std::vector<File> files_;
  std::vector<size_t> segments_;  // which of files_ are value segments
};

Result<std::shared_ptr<const Capture>> DbImpl::NewCapture() {
  // Where nobody writes meanwhile, the manifest that the flush publishes says all.
  QUIRE_RETURN_IF_ERROR(values_->Seal());
  for (int attempt = 0; attempt < kCaptureAttempts; ++attempt) {
    QUIRE_RETURN_IF_ERROR(Flush());
    base::SyncPoint("lsm.capture.flushed");
    std::shared_ptr<CaptureImpl> capture = TryCapture();
    if (capture == nullptr) {
      QUIRE_RETURN_IF_ERROR(values_->Seal());
      QUIRE_RETURN_IF_ERROR(PublishNow());
      capture = TryCapture();
    }
    if (capture == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(capture->ReadIdentities(fs_, directory_));
    return std::shared_ptr<const Capture>(capture);
  }
  return Status(Code::kBusy, "the database in " + directory_ +
                                 " is written to so fast that no moment of it could be captured; "
                                 "let the writers pause");
}

// Null: a table refers to a value segment that is still written to.
std::shared_ptr<DbImpl::CaptureImpl> DbImpl::TryCapture() {
  const std::lock_guard<std::mutex> publish_lock(publish_mutex_);
  std::shared_ptr<const Version> version;
  Manifest manifest = manifest_;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    version = current_;
    manifest.flushed_lsn = flushed_lsn_;
  }
  for (const std::shared_ptr<const Run>& run : version->runs) {
    std::vector<table::TableInfo>& tables = manifest.runs.emplace_back();
    for (const std::shared_ptr<TableHandle>& table : run->tables()) tables.push_back(table->info());
  }
  manifest.next_value_segment_id = values_->next_id();
  manifest.value_segment_floor = manifest.next_value_segment_id;
  const SegmentUses uses = UsesOf(version->runs);
  for (const StoredSegment& segment : segments_.Stored()) {
    if (!uses.contains(segment.id)) continue;
    if (segment.file_bytes == 0) return nullptr;
    manifest.value_segments.push_back(segment);
  }
  if (manifest.value_segments.size() != uses.size()) return nullptr;
  return std::make_shared<CaptureImpl>(std::move(version), manifest);
}

// Publishes although no run changed.
Status DbImpl::PublishNow() {
  const Status published = Publish({});
  if (!published.ok() && published.code() != Code::kNoSpace) {
    // Whether the manifest was replaced may not be known: nothing may be built on it.
    const std::lock_guard<std::mutex> lock(mutex_);
    FailLocked(published, "publishing");
  }
  return published;
}

}  // namespace quire::lsm
