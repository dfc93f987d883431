#include <algorithm>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "dataset/calls/dataset_writer.h"
#include "io/files/machine.h"
#include "quire/option_table.h"
#include "runtime/agreement.h"
#include "runtime/options_text.h"
#include "runtime/repository.h"

namespace quire::dataset {
namespace {

// Bits per key of a table's Bloom filter, if the part has several tables in an epoch.
constexpr int kFilterBits = 8;

// The settings that must be equal on all ranks, one per line.
std::string Request(const std::string& name, const DatasetOptions& options) {
  return "name = " + name + "\n" + runtime::OptionsText(options, "\n") +
         "\npartitioner = " + (options.partitioner ? "function" : "none") + "\n";
}

Status CheckRequest(const std::string& name, DatasetOptions* options,
                    runtime::Partitioning* partitioning) {
  QUIRE_RETURN_IF_ERROR(io::CheckName(name));
  QUIRE_RETURN_IF_ERROR(OptionTable::Check(*options));
  QUIRE_RETURN_IF_ERROR(OptionTable::ApplyEnvironment(options));
  QUIRE_ASSIGN_OR_RETURN(
      *partitioning, runtime::Partitioning::Make(options->partitioner, options->partitioner_name));
  if (options->format != DatasetFormat::kBloom || options->bloom_ranks != 1) return Status();
  return Status(Code::kInvalidArgument,
                "dataset_bloom_ranks = 1: no Bloom filter answers the right rank alone; give 2 or "
                "more, or choose the format ribbon");
}

// Checks that the format and partitioner are those of the dataset.
Status CheckSame(const DatasetDescriptor& found, const DatasetDescriptor& asked,
                 const std::string& directory) {
  if (found.format != asked.format) {
    return Status(Code::kInvalidArgument, "the dataset at " + directory + " has the format \"" +
                                              FormatName(found.format) + "\", not \"" +
                                              FormatName(asked.format) + "\"");
  }
  return CheckPartitioner(found, asked.partitioner, directory);
}

// Returns whether any rank's part is there. A lock is no part, nor is an empty file, which an open
// that failed leaves.
Result<bool> HasParts(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(directory));
  return std::any_of(files.begin(), files.end(), [](const io::FileInfo& file) {
    return file.name.starts_with("part-") && !file.name.ends_with(".lock") && file.size > 0;
  });
}

// Writes the descriptor, before there are parts: parts without it are the rest of a dataset, and a
// writer that began another dataset would cut them off.
Status BeginDescriptor(OpenDataset* dataset) {
  io::FileSystem& fs = *dataset->context->fs;
  const std::string file = dataset->directory + "/" + runtime::kDatasetFile;
  QUIRE_ASSIGN_OR_RETURN(const bool has_parts, HasParts(fs, dataset->directory));
  if (has_parts) return MissingFile(file);
  dataset->descriptor.id = io::RandomU64() | 1;
  dataset->made.AddFile(fs, file);
  dataset->begins = true;
  return io::ReplaceFile(fs, file, EncodeDescriptor(dataset->descriptor));
}

// Writes an empty list of epochs before there are parts: if parts exist without a list, it is
// missing.
Status BeginEpochs(OpenDataset* dataset) {
  io::FileSystem& fs = *dataset->context->fs;
  const std::string file = dataset->directory + "/" + kEpochsName;
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs.Exists(file));
  if (there) return Status();
  dataset->made.AddFile(fs, file);
  return io::ReplaceFile(fs, file, EncodeEpochs({}, dataset->descriptor.id));
}

// On rank 0: locks the dataset, and reads it or begins it.
Status LockAndRead(OpenDataset* dataset) {
  io::FileSystem& fs = *dataset->context->fs;
  const std::string& directory = dataset->directory;
  QUIRE_ASSIGN_OR_RETURN(const bool database, fs.Exists(directory + "/" + runtime::kDatabaseFile));
  if (database) {
    return Status(Code::kInvalidArgument, directory + " is a database, not a dataset");
  }
  auto lock = dataset->made.Lock(fs, directory + "/" + kLockName, io::ProcessDescription());
  if (lock.status().code() == Code::kBusy) {
    return Status(Code::kBusy,
                  lock.status().message() + "; to read meanwhile: DatasetReader, or quire dataset");
  }
  QUIRE_ASSIGN_OR_RETURN(dataset->lock, std::move(lock));
  Result<DatasetDescriptor> found = ReadDescriptor(fs, directory);
  if (!found.ok() && found.status().code() == Code::kNotFound) {
    QUIRE_RETURN_IF_ERROR(BeginDescriptor(dataset));
    return BeginEpochs(dataset);
  }
  QUIRE_RETURN_IF_ERROR(found.status());
  QUIRE_RETURN_IF_ERROR(CheckSame(*found, dataset->descriptor, directory));
  dataset->descriptor.id = found->id;
  QUIRE_ASSIGN_OR_RETURN(dataset->epochs, ReadEpochs(fs, directory, dataset->descriptor.id));
  return BeginEpochs(dataset);
}

// Returns the newest epoch of each rank that ever had a part: older epochs count only if they have
// more ranks.
std::vector<EpochRecord> NewestOfEachRank(const std::vector<EpochRecord>& epochs) {
  std::vector<EpochRecord> newest;
  uint32_t rank_count = 0;
  for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch) {
    if (epoch->rank_count <= rank_count) continue;
    rank_count = epoch->rank_count;
    newest.insert(newest.begin(), *epoch);
  }
  return newest;
}

// The dataset as found by rank 0.
struct News {
  bool begins = false;
  uint64_t epoch_count = 0;
  std::vector<EpochRecord> epochs;  // the newest of each rank
};

// The data that rank 0 sends to the other ranks.
std::string EncodeNews(const OpenDataset& dataset) {
  std::string text;
  base::PutFixed(&text, dataset.descriptor.id);
  base::PutFixed(&text, dataset.session);
  base::PutFixed(&text, uint8_t{dataset.begins});
  base::PutFixed(&text, uint64_t{dataset.epochs.size()});
  return text + EncodeEpochs(NewestOfEachRank(dataset.epochs), dataset.descriptor.id);
}

Result<News> TakeDecision(Slice text, OpenDataset* dataset) {
  base::ByteReader reader(text);
  uint8_t begins = 0;
  News news;
  if (!reader.Fixed(&dataset->descriptor.id) || !reader.Fixed(&dataset->session) ||
      !reader.Fixed(&begins) || !reader.Fixed(&news.epoch_count)) {
    return Status(Code::kCorruption, "rank 0 does not say what the dataset is");
  }
  news.begins = begins != 0;
  QUIRE_ASSIGN_OR_RETURN(news.epochs, DecodeEpochs(reader.rest(), dataset->descriptor.id,
                                                   "what rank 0 says of the dataset"));
  if (!news.epochs.empty()) dataset->last_epoch = news.epochs.back().number;
  return news;
}

// Checks this rank's view of the storage. Ranks may share no storage, or one of them may have an
// old view: a rank that sees a dataset must see the one that rank 0 found, and no epochs that rank
// 0 does not know.
Status CheckSight(const OpenDataset& dataset, const News& news) {
  io::FileSystem& fs = *dataset.context->fs;
  const std::string& directory = dataset.directory;
  const Result<DatasetDescriptor> seen = ReadDescriptor(fs, directory);
  if (seen.status().code() == Code::kNotFound) return Status();
  QUIRE_RETURN_IF_ERROR(seen.status());
  if (seen->id != dataset.descriptor.id) {
    return OtherStorage(directory + "/" + runtime::kDatasetFile +
                            " is of another dataset than the one that rank 0 " +
                            (news.begins ? "is about to begin: it found none" : "found"),
                        directory);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t epoch_count, CountEpochs(fs, directory));
  if (epoch_count <= news.epoch_count) return Status();
  return OtherStorage(directory + "/" + kEpochsName + " has " + std::to_string(epoch_count) +
                          " epochs, but rank 0 found " + std::to_string(news.epoch_count),
                      directory);
}

Status OpenPart(OpenDataset* dataset, const News& news) {
  QUIRE_RETURN_IF_ERROR(CheckSight(*dataset, news));
  PartWriter::Options part;
  part.fs = dataset->context->fs;
  part.directory = dataset->directory;
  part.id = dataset->descriptor.id;
  part.rank = static_cast<uint32_t>(dataset->context->rank());
  part.begins = news.begins;
  part.storage.block_bytes = dataset->options.block_bytes;
  part.storage.compression = dataset->options.compression;
  part.storage.bloom_bits_per_key = kFilterBits;
  part.executor = dataset->context->executor.get();
  part.values = dataset->options.format == DatasetFormat::kPointer;
  QUIRE_ASSIGN_OR_RETURN(dataset->part, PartWriter::Open(std::move(part), news.epochs));
  return Status();
}

Status TakeMemory(OpenDataset* dataset) {
  const runtime::ContextState& context = *dataset->context;
  QUIRE_ASSIGN_OR_RETURN(dataset->memory, context.budget->Take(&dataset->options, context.size()));
  return Status();
}

Status MakeDirectory(OpenDataset* dataset) {
  return io::AgainIfTakenBack([&] {
    const Status made = dataset->context->MakeDirectory(dataset->directory);
    return made.ok() && dataset->context->rank() == 0 ? LockAndRead(dataset) : made;
  });
}

Status OpenAll(OpenDataset* dataset) {
  runtime::ContextState& context = *dataset->context;
  QUIRE_RETURN_IF_ERROR(context.LookForDirectory(dataset->directory, &dataset->made));
  Status mine = TakeMemory(dataset);
  if (mine.ok()) mine = MakeDirectory(dataset);
  dataset->session = io::RandomU64();
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      runtime::GatherAgreed(*context.exchange, mine,
                            context.rank() == 0 ? EncodeNews(*dataset) : std::string()));
  const Result<News> news = TakeDecision(texts[0], dataset);
  Status opened = news.status();
  if (opened.ok()) opened = base::OrOutOfMemory([&] { return OpenPart(dataset, *news); });
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(opened));
  if (dataset->begins) dataset->made.Keep();  // from here on ranks have parts of it
  const Status prepared = base::OrOutOfMemory([&] { return dataset->part->Prepare(); });
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(prepared));
  dataset->part->KeepFiles();
  dataset->made.Keep();
  return Status();
}

}  // namespace

Result<OpenDataset> OpenForWriting(const std::shared_ptr<runtime::ContextState>& context,
                                   const std::string& name, const DatasetOptions& options) {
  OpenDataset dataset;
  dataset.context = context;
  dataset.number = context->TakeNumber();
  const Status opened = runtime::Together(*context->exchange, [&] {
    dataset.options = options;
    const Status checked = CheckRequest(name, &dataset.options, &dataset.partitioning);
    QUIRE_RETURN_IF_ERROR(
        runtime::AgreeOnRequest(*context->exchange, checked, Request(name, dataset.options)));
    dataset.directory = context->DirectoryOf(name);
    dataset.descriptor.format = dataset.options.format;
    dataset.descriptor.partitioner = dataset.partitioning.name();
    return OpenAll(&dataset);
  });
  QUIRE_RETURN_IF_ERROR(opened);
  return dataset;
}

}  // namespace quire::dataset
