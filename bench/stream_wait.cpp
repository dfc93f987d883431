// Measures how long after a commit a sleeping reader has seen it.
#include <mpi.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "keys.h"
#include "report.h"
#include "samples.h"
#include "store_ways.h"
#include "stream.h"

namespace quire::bench {
namespace {

constexpr char kStore[] = "wait";
constexpr uint64_t kTimeoutMs = 10'000;

// The clock that all processes of a machine share. [us]
double Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(since).count();
}

// Puts, each after a pause in which the reader has gone to sleep again.
Status PutAll(StreamWriter* writer, uint64_t count, std::vector<double>* called,
              std::vector<double>* returned) {
  KeyRandom random(1);
  for (uint64_t i = 0; i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random.Below(1000)));
    called->push_back(Now());
    QUIRE_RETURN_IF_ERROR(writer->Put("object").status());
    returned->push_back(Now());
  }
  return Status();
}

// Returns when each snapshot was seen. If a later snapshot overtook it, it counts as seen with that
// one.
Status WaitForAll(StreamReader* reader, uint64_t count, std::vector<double>* seen) {
  seen->assign(count, 0);
  for (uint64_t last = 1; last < count + 1;) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t snapshot, reader->Wait(last, kTimeoutMs));
    const double now = Now();
    for (uint64_t one = last + 1; one <= snapshot && one < count + 2; ++one) {
      (*seen)[one - 2] = now;
    }
    last = snapshot;
  }
  return Status();
}

// Sends the other rank's samples to the first.
Status Exchange(Ranks& ranks, std::vector<double>* seen, uint64_t count) {
  const auto size = static_cast<int>(count);
  if (ranks.IsFirst()) {
    seen->resize(count);
    MPI_Recv(seen->data(), size, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (ranks.rank() == 1) {
    MPI_Send(seen->data(), size, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
  }
  return Status();
}

Status Measure(const StreamSettings& settings, Ranks& ranks, const std::string& place,
               uint64_t bytes) {
  std::unique_ptr<StreamWriter> writer;
  const Variables object(1, bytes);
  const auto open = [&]() -> Status {
    if (!ranks.IsFirst()) return Status();
    StreamOptions options;
    options.log_bytes = std::max<uint64_t>(64 << 20, 4 * bytes);
    const std::string store = kStore + std::to_string(bytes);
    QUIRE_ASSIGN_OR_RETURN(writer, StreamWriter::Open(place, store, 0, options));
    QUIRE_RETURN_IF_ERROR(writer->Attach("object", object.at(0), bytes));
    return writer->Put("object").status();
  };
  QUIRE_RETURN_IF_ERROR(ranks.Time(open).status());
  std::vector<double> called, returned, seen;
  const auto work = [&]() -> Status {
    if (ranks.IsFirst()) return PutAll(writer.get(), settings.count, &called, &returned);
    if (ranks.rank() != 1) return Status();
    StreamReaderOptions options;
    options.remote = false;
    const std::string store = kStore + std::to_string(bytes);
    QUIRE_ASSIGN_OR_RETURN(const auto reader, StreamReader::Open(place, store, 0, options));
    return WaitForAll(reader.get(), settings.count, &seen);
  };
  QUIRE_RETURN_IF_ERROR(ranks.Time(work).status());
  QUIRE_RETURN_IF_ERROR(Exchange(ranks, &seen, settings.count));
  if (!ranks.IsFirst()) return Status();
  std::vector<double> since_call, since_return, put;
  uint64_t overtaken = 0;
  for (uint64_t i = 0; i < settings.count; ++i) {
    put.push_back(returned[i] - called[i]);
    if (i + 1 < settings.count && seen[i] == seen[i + 1]) ++overtaken;
    since_call.push_back(seen[i] - called[i]);
    since_return.push_back(seen[i] - returned[i]);
  }
  PrintCase(ranks, "stream",
            {{"figure", settings.figure}, {"method", "wait"}, {"object_bytes", bytes}},
            {{"put_us", Rounded(Median(put))},
             {"seen_after_call_us", Rounded(Median(since_call))},
             {"seen_after_return_us", Rounded(Median(since_return))},
             {"seen_after_return_p99_us", Rounded(Percentile(since_return, 0.99))},
             {"seen", settings.count - overtaken},
             {"puts", settings.count}});
  TellAim("from the call of a put of " + std::to_string(bytes) + " bytes until it is seen [us]",
          "<=", 50, Median(since_call));
  return Status();
}

}  // namespace

Status RunStreamWait(const StreamSettings& settings) {
  ParallelSettings parallel = settings.parallel;
  parallel.directory = settings.place;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Open(parallel));
  QUIRE_RETURN_IF_ERROR(settings.MethodsOf({}).status());
  if (ranks->size() < 2) {
    return Status(Code::kInvalidArgument,
                  "--figure wait needs two ranks: mpiexec -n 2 quire-bench stream --figure wait");
  }
  const std::string place = ranks->folder() + "/streams";
  std::vector<uint64_t> sizes = settings.object_bytes;
  if (sizes.empty()) sizes = {64, 4096};
  for (const uint64_t bytes : sizes) {
    QUIRE_RETURN_IF_ERROR(Measure(settings, *ranks, place, bytes));
  }
  return Status();
}

}  // namespace quire::bench
