#include "stream/store/tending.h"

#include <memory>
#include <utility>

#include "io/files/machine.h"
#include "stream/index/log_contents.h"
#include "stream/store/local_reader.h"
#include "stream/store/reader_log.h"

namespace quire::stream {
namespace {

constexpr int kCheckAttempts = 1000;
constexpr uint64_t kCheckPauseNs = 1'000'000;

}  // namespace

Status CollectEnded(io::FileSystem& fs, const std::string& place, const std::string& name,
                    uint32_t rank) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Part> part,
                         Part::OpenExisting(fs, PartName{place, name, rank}));
  return part->CollectInPieces();
}

Status RecoverIndex(io::FileSystem& fs, const std::string& place, const std::string& name,
                    uint32_t rank) {
  return Part::OpenExisting(fs, PartName{place, name, rank}).status();
}

// The gate knows where the log begins and ends. A log that ends earlier has lost commits, whatever
// its index contains; a writer appends behind that end. If the writer meanwhile collects what the
// walk is about to read, the walk begins again.
Status CheckLog(io::FileSystem& fs, const std::string& place, const std::string& name,
                uint32_t rank, bool check_data) {
  const PartName part{place, name, rank};
  Position head_before = 0;
  Position head = 0;
  for (int attempt = 0; attempt < kCheckAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const ReaderLog> reader_log,
                           OpenReaderLog(fs, part, Access::kLook));
    const Position told = reader_log->tail();
    QUIRE_ASSIGN_OR_RETURN(const auto heap,
                           LogHeap::Open(fs, part.path("log"), io::MapMode::kRead));
    WalkEnd end;
    HowToRead how = HowToReadDuring(fs.BootId(), *heap);
    how.check_data = check_data;
    QUIRE_RETURN_IF_ERROR(ReadContents(heap.get(), how, &end).status());
    const Status sound = CheckEnd(*heap, end, told, false);
    if (sound.ok() || reader_log->Untouched(end.at)) return sound;
    head_before = std::exchange(head, heap->head().head);
    io::RealClock().SleepNs(kCheckPauseNs);
  }
  if (head == head_before) {
    return Status(Code::kCorruption, "the newest head of " + part.path("log") + " is damaged");
  }
  return Status(Code::kBusy, "the writer of " + part.path("log") +
                                 " took away what was to be read at each of " +
                                 std::to_string(kCheckAttempts) + " attempts: try again");
}

}  // namespace quire::stream
