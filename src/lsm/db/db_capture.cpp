// Captures: what there is now, held for a checkpoint.
#include <algorithm>
#include <map>
#include <utility>

#include "base/core/check.h"
#include "base/threads/sync_point.h"
#include "log/segment.h"
#include "lsm/db/db_impl.h"
#include "lsm/version/recovery.h"

namespace quire::lsm {
class DbImpl::CaptureImpl final : public engine::Capture {
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

Result<std::shared_ptr<const engine::Capture>> DbImpl::NewCapture() {
  // If no thread writes meanwhile, the manifest that the flush publishes describes everything.
  QUIRE_RETURN_IF_ERROR(opened_.values->Seal());
  QUIRE_RETURN_IF_ERROR(Flush());
  base::SyncPoint("lsm.capture.flushed");
  QUIRE_ASSIGN_OR_RETURN(Moment moment, versions_.Now());
  const auto open = [](const StoredSegment& segment) { return segment.file_bytes == 0; };
  std::vector<StoredSegment>& segments = moment.manifest.value_segments;
  if (std::any_of(segments.begin(), segments.end(), open)) {
    base::SyncPoint("lsm.capture.open");
    QUIRE_RETURN_IF_ERROR(opened_.values->Seal());
    versions_.FillSizes(&segments);
  }
  const auto capture = std::make_shared<CaptureImpl>(moment.version, moment.manifest);
  QUIRE_RETURN_IF_ERROR(capture->ReadIdentities(fs_, directory_));
  return std::shared_ptr<const engine::Capture>(capture);
}

}  // namespace quire::lsm
