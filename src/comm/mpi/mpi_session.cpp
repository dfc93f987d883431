#include "comm/mpi/mpi_session.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "base/text/units.h"
#include "comm/mpi/transport_factory.h"
#include "comm/transport/backoff.h"
#include "io/files/machine.h"

namespace quire::comm {
namespace {

constexpr uint64_t kSetupNapNsMin = 20'000;
constexpr uint64_t kSetupNapNsMax = 1'000'000;

// A Status that fits into a gathered struct.
struct PlainStatus {
  int32_t code;
  char text[252];
};

}  // namespace

// Keeps the buffer on a list, so that leak checkers do not report it.
void KeepForEver(std::unique_ptr<char[]> buffer) noexcept {
  static std::mutex mutex;
  static auto* const kept = new (std::nothrow) std::vector<std::unique_ptr<char[]>>;
  char* const bytes = buffer.release();
  if (kept == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex);
  try {
    kept->emplace_back(bytes);
  } catch (const std::bad_alloc&) {
    // The buffer is not freed here, either.
  }
}

bool MpiIsRunning() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

const char* MpiThreadLevelName() {
  int level = MPI_THREAD_SINGLE;
  if (!MpiIsRunning()) return "MPI is not running";
  MPI_Query_thread(&level);
  switch (level) {
    case MPI_THREAD_MULTIPLE:
      return "MPI_THREAD_MULTIPLE";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    default:
      return "MPI_THREAD_SINGLE";
  }
}

Status MpiStatus(int error, const char* call) {
  if (error == MPI_SUCCESS) return Status();
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(error, text, &size);
  return Status(Code::kPeerFailed, std::string(call) + ": " + text);
}

Status MpiSession::CheckThread() const {
  if (thread_level_ >= MPI_THREAD_SERIALIZED) return Status();
  if (opener_ == std::this_thread::get_id()) return Status();  // without asking MPI each time
  int is_main = 1;
  if (MpiIsRunning()) MPI_Is_thread_main(&is_main);
  if (is_main != 0) return Status();
  return Status(Code::kInvalidArgument,
                std::string("with ") + MpiThreadLevelName() +
                    " only the thread that initialized MPI may make calls that send or receive; "
                    "ask MPI_Init_thread for MPI_THREAD_MULTIPLE");
}

Result<std::unique_ptr<MpiSession>> MpiSession::Open(int fortran_communicator,
                                                     uint64_t timeout_ms) {
  if (!MpiIsRunning()) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    return Status(Code::kInvalidArgument,
                  finalized != 0 ? "MPI is finalized already; open before MPI_Finalize"
                                 : "MPI is not initialized; call MPI_Init_thread first");
  }
  const MPI_Comm comm = MPI_Comm_f2c(fortran_communicator);
  if (comm == MPI_COMM_NULL) {
    return Status(Code::kInvalidArgument, "the communicator is MPI_COMM_NULL");
  }
  int is_inter = 0;
  MPI_Comm_test_inter(comm, &is_inter);
  if (is_inter != 0) {
    return Status(Code::kInvalidArgument, "an inter-communicator was given; merge it first");
  }
  std::unique_ptr<MpiSession> session(new MpiSession);
  MPI_Query_thread(&session->thread_level_);
  QUIRE_RETURN_IF_ERROR(session->CheckThread());
  session->opener_ = std::this_thread::get_id();
  session->timeout_ms_ = timeout_ms;
  session->deadline_ns_ = io::RealClock().NowNs() + timeout_ms * base::kNsPerMs;
  QUIRE_RETURN_IF_ERROR(session->Duplicate(comm));
  QUIRE_RETURN_IF_ERROR(session->WatchFinalize());
  return session;
}

Status MpiSession::Duplicate(MPI_Comm comm) {
  auto place = std::make_unique<char[]>(sizeof(MPI_Comm));
  auto* const duplicate = new (place.get()) MPI_Comm(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  QUIRE_RETURN_IF_ERROR(MpiStatus(MPI_Comm_idup(comm, duplicate, &request), "MPI_Comm_idup"));
  const Status status = Await(&request, "duplicate the communicator");
  if (!status.ok()) {
    KeepForEver(std::move(place));
    return status;
  }
  comm_ = *duplicate;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  return Status();
}

// MPI_Finalize first deletes the attributes of MPI_COMM_SELF: the last moment to end our traffic.
Status MpiSession::WatchFinalize() {
  QUIRE_RETURN_IF_ERROR(
      MpiStatus(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &OnDeleteAttribute, &key_, nullptr),
                "MPI_Comm_create_keyval"));
  return MpiStatus(MPI_Comm_set_attr(MPI_COMM_SELF, key_, this), "MPI_Comm_set_attr");
}

int MpiSession::OnDeleteAttribute(MPI_Comm, int, void* value, void*) {
  static_cast<MpiSession*>(value)->Close();
  return MPI_SUCCESS;
}

void MpiSession::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  closed_ = true;
  if (cleanup_) cleanup_();
  if (!leak_ && comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

MpiSession::~MpiSession() {
  if (!MpiIsRunning()) {
    base::Log(LogLevel::kInfo, "MPI was finalized before Quire was closed");
    return;
  }
  CloseNow();
  if (key_ != MPI_KEYVAL_INVALID) MPI_Comm_free_keyval(&key_);
}

void MpiSession::CloseNow() {
  bool closed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed = closed_;
  }
  if (closed || !MpiIsRunning()) return;
  if (key_ != MPI_KEYVAL_INVALID) {
    MPI_Comm_delete_attr(MPI_COMM_SELF, key_);  // calls Close
  } else {
    Close();
  }
}

Status MpiSession::Await(MPI_Request* request, const char* what) {
  std::atomic<uint32_t> never{0};
  for (uint64_t nap_ns = kSetupNapNsMin;; nap_ns = std::min(2 * nap_ns, kSetupNapNsMax)) {
    int done = 0;
    QUIRE_RETURN_IF_ERROR(MpiStatus(MPI_Test(request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done != 0) return Status();
    if (io::RealClock().NowNs() > deadline_ns_) {
      leak_ = true;
      return Status(Code::kTimedOut, std::string("some ranks did not come to ") + what +
                                         " within " + std::to_string(timeout_ms_) +
                                         " ms; all ranks of the communicator must open together");
    }
    SleepPrecisely(&never, nap_ns);
  }
}

Status MpiSession::GatherBytes(const void* mine, void* all, size_t bytes_each) {
  const size_t all_bytes = bytes_each * static_cast<size_t>(size_);
  auto buffer = std::make_unique<char[]>(bytes_each + all_bytes);
  std::memcpy(buffer.get(), mine, bytes_each);
  char* const received = buffer.get() + bytes_each;
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes_each);
  QUIRE_RETURN_IF_ERROR(MpiStatus(
      MPI_Iallgather(buffer.get(), count, MPI_BYTE, received, count, MPI_BYTE, comm_, &request),
      "MPI_Iallgather"));
  const Status status = Await(&request, "exchange their addresses");
  if (status.ok()) {
    std::memcpy(all, received, all_bytes);
  } else {
    KeepForEver(std::move(buffer));
  }
  return status;
}

Status MpiSession::Agree(const Status& mine) {
  PlainStatus plain{};
  plain.code = static_cast<int32_t>(mine.code());
  std::strncpy(plain.text, mine.message().c_str(), sizeof plain.text - 1);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<PlainStatus> all, Gather(plain));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].code == static_cast<int32_t>(Code::kOk)) continue;
    return Status(static_cast<Code>(all[i].code),
                  "rank " + std::to_string(i) + ": " + std::string(all[i].text));
  }
  return Status();
}

}  // namespace quire::comm
