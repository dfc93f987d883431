#include "partition_data.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "quire/option_table.h"

namespace quire::bench {
namespace {

// Returns the number of a pair that ValueMaker writes into its value.
uint64_t NameOf(uint32_t epoch, uint64_t number) {
  return number ^ (uint64_t{epoch} << 48);
}

class DatasetAsker final : public Asker {
 public:
  explicit DatasetAsker(std::unique_ptr<DatasetReader> reader) : reader_(std::move(reader)) {}
  Status Ask(uint32_t epoch, Slice key, std::string* value) override {
    QUIRE_RETURN_IF_ERROR(reader_->Get(epoch, key, &values_));
    *value = values_[0].value;
    return Status();
  }
  DatasetReaderStatistics Statistics() const override { return reader_->Statistics(); }

 private:
  const std::unique_ptr<DatasetReader> reader_;
  std::vector<DatasetValue> values_;
};

// `Find` gets the epoch, the key and the value.
template <typename Find>
class FileAsker final : public Asker {
 public:
  explicit FileAsker(Find find) : find_(std::move(find)) {}
  Status Ask(uint32_t epoch, Slice key, std::string* value) override {
    return find_(epoch, key, value);
  }

 private:
  const Find find_;
};

template <typename Find>
std::unique_ptr<Asker> NewFileAsker(Find find) {
  return std::make_unique<FileAsker<Find>>(std::move(find));
}

// Returns the bytes of all files in the directory; 0 if this rank does not see them.
double FileBytes(const std::string& directory) {
  double sum = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(directory, error)) {
    if (file.is_regular_file(error)) sum += static_cast<double>(file.file_size(error));
  }
  return sum;
}

bool IsFiles(const std::string& way) {
  return way == "direct" || way == "sorted";
}

}  // namespace

PartitionData::PartitionData(Ranks& ranks, io::FileSystem& fs, const PartitionSettings& settings,
                             std::string way, size_t pair_bytes)
    : ranks_(ranks),
      fs_(fs),
      way_(std::move(way)),
      pair_bytes_(pair_bytes),
      count_(settings.rank_bytes / pair_bytes),
      buffer_bytes_(settings.buffer_bytes),
      name_("data-" + way_),
      directory_(ranks.folder() + (IsFiles(way_) ? "/" : "/repository/") + name_),
      values_(pair_bytes - kKeyBytes) {}

std::string PartitionData::KeyOf(uint64_t number) {
  const uint64_t bits = Mix64(number);
  return std::string(reinterpret_cast<const char*>(&bits), sizeof bits);
}

bool PartitionData::Matches(uint32_t epoch, uint64_t number, Slice value) const {
  return values_.Matches(NameOf(epoch, number), value);
}

template <typename Put>
Status PartitionData::PutPairs(uint32_t epoch, const Put& put) {
  const auto ranks = static_cast<uint64_t>(ranks_.size());
  const uint64_t begin = (static_cast<uint64_t>(ranks_.rank()) + epoch) % ranks * count_;
  for (uint64_t number = begin; number < begin + count_; ++number) {
    const uint64_t bits = Mix64(number);
    const Slice key(reinterpret_cast<const char*>(&bits), sizeof bits);
    QUIRE_RETURN_IF_ERROR(put(key, values_(NameOf(epoch, number))));
  }
  return Status();
}

Result<WriteCost> PartitionData::Write(uint32_t epochs) {
  return IsFiles(way_) ? WriteFiles(epochs) : WriteDataset(epochs);
}

Result<WriteCost> PartitionData::WriteDataset(uint32_t epochs) {
  DatasetOptions options;
  options.table_bytes = options.partition_bytes = buffer_bytes_;
  QUIRE_RETURN_IF_ERROR(OptionTable::Set("dataset_format", way_, &options));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DatasetWriter> writer,
                         DatasetWriter::Open(ranks_.context(), name_, options));
  double put_seconds = 0;
  const auto put = [&](Slice key, Slice value) { return writer->Put(key, value); };
  const auto work = [&]() -> Status {
    for (uint32_t epoch = 1; epoch <= epochs; ++epoch) {
      QUIRE_RETURN_IF_ERROR(writer->BeginEpoch(epoch));
      const Stopwatch watch;
      QUIRE_RETURN_IF_ERROR(PutPairs(epoch, put));
      put_seconds += watch.Seconds();
      QUIRE_RETURN_IF_ERROR(writer->EndEpoch());
    }
    return Status();
  };
  WriteCost cost;
  QUIRE_ASSIGN_OR_RETURN(cost.seconds, ranks_.Time(work));
  QUIRE_ASSIGN_OR_RETURN(cost.put_seconds, ranks_.Max(put_seconds));
  const DatasetWriterStatistics did = writer->Statistics();
  QUIRE_ASSIGN_OR_RETURN(cost.sent_bytes, ranks_.Sum(static_cast<double>(did.sent_bytes)));
  cost.stored_bytes = FileBytes(directory_);
  QUIRE_RETURN_IF_ERROR(writer->Finish());
  return cost;
}

std::vector<std::string> PartitionData::FilesOf(uint32_t epoch) const {
  std::vector<std::string> files;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    files.push_back(directory_ + "/" + std::to_string(epoch) + ".rank-" + std::to_string(rank));
  }
  return files;
}

std::string PartitionData::SortedFileOf(uint32_t epoch) const {
  return directory_ + "/" + std::to_string(epoch) + ".sorted";
}

Status PartitionData::WriteFile(uint32_t epoch, double* put_seconds) {
  QUIRE_ASSIGN_OR_RETURN(
      PlainWriter writer,
      PlainWriter::Create(fs_, FilesOf(epoch)[static_cast<size_t>(ranks_.rank())]));
  const Stopwatch watch;
  QUIRE_RETURN_IF_ERROR(
      PutPairs(epoch, [&](Slice key, Slice value) { return writer.Put(key, value); }));
  *put_seconds += watch.Seconds();
  return writer.Finish();
}

Result<WriteCost> PartitionData::WriteFiles(uint32_t epochs) {
  QUIRE_RETURN_IF_ERROR(fs_.MakeDirectory(directory_));
  double put_seconds = 0;
  const auto write = [&]() -> Status {
    for (uint32_t epoch = 1; epoch <= epochs; ++epoch) {
      QUIRE_RETURN_IF_ERROR(WriteFile(epoch, &put_seconds));
    }
    return Status();
  };
  const auto sort = [&]() -> Status {
    if (way_ != "sorted" || !ranks_.IsFirst()) return Status();
    for (uint32_t epoch = 1; epoch <= epochs; ++epoch) {
      QUIRE_RETURN_IF_ERROR(
          SortExternally(fs_, FilesOf(epoch), shape(), buffer_bytes_, SortedFileOf(epoch)));
    }
    return Status();
  };
  WriteCost cost;
  QUIRE_ASSIGN_OR_RETURN(cost.seconds, ranks_.Time(write));
  QUIRE_ASSIGN_OR_RETURN(const double sorting, ranks_.Time(sort));
  cost.seconds += sorting;
  QUIRE_ASSIGN_OR_RETURN(cost.put_seconds, ranks_.Max(put_seconds));
  cost.stored_bytes = FileBytes(directory_);
  return cost;
}

Status PartitionData::Remove() {
  QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
  std::error_code error;
  if (ranks_.IsFirst()) std::filesystem::remove_all(directory_, error);
  QUIRE_RETURN_IF_ERROR(ranks_.context().Barrier());
  return error ? Status(Code::kIo, directory_ + ": " + error.message()) : Status();
}

Result<std::unique_ptr<Asker>> PartitionData::NewAsker() const {
  if (way_ == "direct") {
    return NewFileAsker([this](uint32_t epoch, Slice key, std::string* value) {
      return ScanForKey(fs_, FilesOf(epoch), shape(), key, value);
    });
  }
  if (way_ == "sorted") {
    return NewFileAsker([this](uint32_t epoch, Slice key, std::string* value) {
      return SearchSorted(fs_, SortedFileOf(epoch), shape(), key, value);
    });
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<DatasetReader> reader, DatasetReader::Open(directory_));
  return std::unique_ptr<Asker>(std::make_unique<DatasetAsker>(std::move(reader)));
}

}  // namespace quire::bench
