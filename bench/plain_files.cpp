#include "plain_files.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <utility>
#include <vector>

namespace quire::bench {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

// The pairs of a file one after another, through a buffer.
class PlainReader {
 public:
  static Result<PlainReader> Open(io::FileSystem& fs, const std::string& path, PairShape shape,
                                  size_t buffer_bytes) {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs.Open(path, io::FileOpenMode::kRead));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    const size_t pairs = std::max<size_t>(buffer_bytes / shape.pair_bytes, 1);
    return PlainReader(std::move(file), size, pairs * shape.pair_bytes, shape.pair_bytes);
  }

  // Returns as many pairs as the buffer takes; none at the end.
  Result<Slice> NextPiece() {
    const size_t size = std::min<uint64_t>(buffer_.size(), size_ - read_);
    if (size > 0) QUIRE_RETURN_IF_ERROR(file_->ReadAt(read_, size, buffer_.data()));
    read_ += size;
    return Slice(buffer_.data(), size);
  }

  // The next pair; none at the end.
  Result<Slice> Next() {
    if (piece_.empty()) {
      QUIRE_ASSIGN_OR_RETURN(piece_, NextPiece());
      if (piece_.empty()) return Slice();
    }
    const Slice pair = piece_.substr(0, pair_bytes_);
    piece_.remove_prefix(pair_bytes_);
    return pair;
  }

 private:
  PlainReader(std::unique_ptr<io::File> file, uint64_t size, size_t buffer_bytes, size_t pair_bytes)
      : file_(std::move(file)), size_(size), pair_bytes_(pair_bytes), buffer_(buffer_bytes, '\0') {}

  std::unique_ptr<io::File> file_;
  uint64_t size_;
  size_t pair_bytes_;
  std::vector<char> buffer_;
  uint64_t read_ = 0;
  Slice piece_;
};

Status WriteRun(io::FileSystem& fs, const std::string& path, Slice piece, PairShape shape) {
  std::vector<Slice> pairs;
  for (; !piece.empty(); piece.remove_prefix(shape.pair_bytes)) {
    pairs.push_back(piece.substr(0, shape.pair_bytes));
  }
  std::sort(pairs.begin(), pairs.end(), [shape](Slice a, Slice b) {
    return std::memcmp(a.data(), b.data(), shape.key_bytes) < 0;
  });
  QUIRE_ASSIGN_OR_RETURN(PlainWriter writer, PlainWriter::Create(fs, path));
  for (const Slice pair : pairs) QUIRE_RETURN_IF_ERROR(writer.Put(pair, {}));
  return writer.Finish();
}

Result<std::vector<std::string>> WriteRuns(io::FileSystem& fs,
                                           const std::vector<std::string>& paths, PairShape shape,
                                           uint64_t memory_bytes, const std::string& sorted) {
  std::vector<std::string> runs;
  for (const std::string& path : paths) {
    QUIRE_ASSIGN_OR_RETURN(PlainReader reader, PlainReader::Open(fs, path, shape, memory_bytes));
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(const Slice piece, reader.NextPiece());
      if (piece.empty()) break;
      runs.push_back(sorted + ".run-" + std::to_string(runs.size()));
      QUIRE_RETURN_IF_ERROR(WriteRun(fs, runs.back(), piece, shape));
    }
  }
  return runs;
}

Status MergeRuns(std::vector<PlainReader>* runs, PairShape shape, PlainWriter* writer) {
  struct Head {
    Slice pair;
    size_t run;
  };
  const auto after = [shape](const Head& a, const Head& b) {
    return std::memcmp(a.pair.data(), b.pair.data(), shape.key_bytes) > 0;
  };
  std::priority_queue<Head, std::vector<Head>, decltype(after)> heads(after);
  const auto advance = [&](size_t run) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Slice pair, (*runs)[run].Next());
    if (!pair.empty()) heads.push({pair, run});
    return Status();
  };
  for (size_t run = 0; run < runs->size(); ++run) QUIRE_RETURN_IF_ERROR(advance(run));
  while (!heads.empty()) {
    const Head head = heads.top();
    heads.pop();
    QUIRE_RETURN_IF_ERROR(writer->Put(head.pair, {}));
    QUIRE_RETURN_IF_ERROR(advance(head.run));
  }
  return writer->Finish();
}

}  // namespace

Result<PlainWriter> PlainWriter::Create(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs.Open(path, io::FileOpenMode::kCreate));
  return PlainWriter(std::move(file));
}

Status PlainWriter::Put(Slice key, Slice value) {
  buffer_.append(key.data(), key.size());
  buffer_.append(value.data(), value.size());
  return buffer_.size() < kBufferBytes ? Status() : Flush();
}

Status PlainWriter::Flush() {
  QUIRE_RETURN_IF_ERROR(file_->WriteAt(end_, buffer_));
  end_ += buffer_.size();
  buffer_.clear();
  return Status();
}

Status PlainWriter::Finish() {
  QUIRE_RETURN_IF_ERROR(Flush());
  return file_->Sync();
}

Status ScanForKey(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                  Slice key, std::string* value) {
  for (const std::string& path : paths) {
    QUIRE_ASSIGN_OR_RETURN(PlainReader reader, PlainReader::Open(fs, path, shape, kBufferBytes));
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(Slice piece, reader.NextPiece());
      if (piece.empty()) break;
      for (; !piece.empty(); piece.remove_prefix(shape.pair_bytes)) {
        if (piece.substr(0, shape.key_bytes) != key) continue;
        *value = piece.substr(shape.key_bytes, shape.pair_bytes - shape.key_bytes);
        return Status();
      }
    }
  }
  return Status(Code::kNotFound);
}

Status SortExternally(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                      uint64_t memory_bytes, const std::string& sorted) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         WriteRuns(fs, paths, shape, memory_bytes, sorted));
  std::vector<PlainReader> runs;
  for (const std::string& name : names) {
    QUIRE_ASSIGN_OR_RETURN(PlainReader run,
                           PlainReader::Open(fs, name, shape, memory_bytes / names.size()));
    runs.push_back(std::move(run));
  }
  QUIRE_ASSIGN_OR_RETURN(PlainWriter writer, PlainWriter::Create(fs, sorted));
  QUIRE_RETURN_IF_ERROR(MergeRuns(&runs, shape, &writer));
  for (const std::string& name : names) QUIRE_RETURN_IF_ERROR(fs.Unlink(name));
  return Status();
}

Status SearchSorted(io::FileSystem& fs, const std::string& sorted, PairShape shape, Slice key,
                    std::string* value) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(sorted, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string pair(shape.pair_bytes, '\0');
  uint64_t begin = 0;
  uint64_t end = size / shape.pair_bytes;
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    QUIRE_RETURN_IF_ERROR(file->ReadAt(middle * shape.pair_bytes, pair.size(), pair.data()));
    const int order = std::memcmp(pair.data(), key.data(), shape.key_bytes);
    if (order == 0) {
      value->assign(pair, shape.key_bytes);
      return Status();
    }
    order < 0 ? begin = middle + 1 : end = middle;
  }
  return Status(Code::kNotFound);
}

}  // namespace quire::bench
