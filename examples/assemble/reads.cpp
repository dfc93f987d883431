#include "reads.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::assemble {
namespace {

constexpr unsigned kBufferBytes = 256 * 1024;

struct GzClose {
  void operator()(gzFile file) const { gzclose_r(file); }
};

class Reader : public SequenceReader {
 public:
  Reader(std::string path, gzFile file) : path_(std::move(path)), file_(file) {}

  Status Next(Slice* sequence) override {
    while (line_.empty()) QUIRE_RETURN_IF_ERROR(NextLine());  // blank lines between records
    ++record_;
    const char mark = line_[0];
    if (mark != '>' && mark != '@') return Damaged("begins neither with '>' nor with '@'");
    const Status status = mark == '@' ? NextFastq() : NextFasta();
    *sequence = sequence_;
    return status;
  }

 private:
  Status Damaged(const std::string& what) const {
    return Status(Code::kCorruption, path_ + ": record " + std::to_string(record_) + " " + what);
  }

  Status NextFastq() {
    const auto within = [this](Status status) {
      return status.code() == Code::kNotFound ? Damaged("is cut off") : status;
    };
    QUIRE_RETURN_IF_ERROR(within(NextLine()));
    sequence_ = line_;
    QUIRE_RETURN_IF_ERROR(within(NextLine()));
    if (line_.empty() || line_[0] != '+') return Damaged("has no '+' line");
    QUIRE_RETURN_IF_ERROR(within(NextLine()));
    if (line_.size() != sequence_.size()) return Damaged("has not one quality per base");
    line_.clear();
    return Status();
  }

  Status NextFasta() {
    sequence_.clear();
    for (;;) {
      const Status status = NextLine();
      if (status.code() == Code::kNotFound) {
        line_.clear();
        return Status();
      }
      QUIRE_RETURN_IF_ERROR(status);
      if (!line_.empty() && line_[0] == '>') return Status();
      sequence_ += line_;
    }
  }

  // The next line, without its end. kNotFound behind the last.
  Status NextLine() {
    line_.clear();
    for (;;) {
      const void* end = std::memchr(&buffer_[at_], '\n', size_ - at_);
      const size_t stop = end == nullptr
                              ? size_
                              : static_cast<size_t>(static_cast<const char*>(end) - buffer_.data());
      line_.append(&buffer_[at_], stop - at_);
      at_ = stop;
      if (end != nullptr) {
        ++at_;
        break;
      }
      const int got = gzread(file_.get(), buffer_.data(), kBufferBytes);
      at_ = 0;
      size_ = got > 0 ? static_cast<size_t>(got) : 0;
      if (got > 0) continue;
      QUIRE_RETURN_IF_ERROR(EndOfFile(got));
      if (line_.empty()) return Status(Code::kNotFound);
      break;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    return Status();
  }

  // A compressed file that is cut off is an error, not an end.
  Status EndOfFile(int got) const {
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (got == 0 && error == Z_OK) return Status();
    return Status(error == Z_ERRNO ? Code::kIo : Code::kCorruption, path_ + ": " + text);
  }

  std::string path_;
  std::unique_ptr<gzFile_s, GzClose> file_;
  std::array<char, kBufferBytes> buffer_;
  size_t at_ = 0;
  size_t size_ = 0;
  std::string line_;  // between calls: the header of the next record, or empty
  std::string sequence_;
  uint64_t record_ = 0;
};

}  // namespace

Result<std::unique_ptr<SequenceReader>> SequenceReader::Open(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return Status(errno == ENOENT ? Code::kNotFound : Code::kIo,
                  path + ": " + std::strerror(errno));
  }
  gzbuffer(file, kBufferBytes);
  return std::unique_ptr<SequenceReader>(std::make_unique<Reader>(path, file));
}

}  // namespace quire::assemble
