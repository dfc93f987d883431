#include "range_server.h"

#include <cstdint>
#include <cstring>

namespace quire::bench {
namespace {

constexpr int kRequestTag = 1;
constexpr int kAnswerTag = 2;
constexpr char kPut = 'p';
constexpr char kGet = 'g';
constexpr char kStop = 's';
// A request: the operation, the key's size, key and value. An answer: the code, the value.
constexpr size_t kRequestHeaderBytes = 1 + sizeof(uint32_t);

// Receives the next message with `tag`, and returns its source.
int Receive(MPI_Comm communicator, int from, int tag, std::string* message) {
  MPI_Status status;
  MPI_Probe(from, tag, communicator, &status);
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  message->resize(static_cast<size_t>(bytes));
  MPI_Recv(message->data(), bytes, MPI_CHAR, status.MPI_SOURCE, tag, communicator,
           MPI_STATUS_IGNORE);
  return status.MPI_SOURCE;
}

void Send(MPI_Comm communicator, int to, int tag, const std::string& message) {
  MPI_Send(message.data(), static_cast<int>(message.size()), MPI_CHAR, to, tag, communicator);
}

}  // namespace

Result<std::unique_ptr<RangeServers>> RangeServers::Open(const std::string& directory) {
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided != MPI_THREAD_MULTIPLE) {
    return Status(Code::kUnsupported, "range servers need MPI_THREAD_MULTIPLE of MPI");
  }
  std::unique_ptr<RangeServers> servers(new RangeServers);
  EngineOptions options;
  options.directory = directory;
  QUIRE_ASSIGN_OR_RETURN(servers->engine_, OpenEngine("leveldb", options));
  servers->own_reader_ = servers->engine_->NewReader();
  servers->reader_ = servers->engine_->NewReader();
  MPI_Comm_dup(MPI_COMM_WORLD, &servers->communicator_);
  MPI_Comm_rank(servers->communicator_, &servers->rank_);
  MPI_Comm_size(servers->communicator_, &servers->size_);
  servers->server_ = std::thread([pointer = servers.get()] { pointer->Serve(); });
  return servers;
}

RangeServers::~RangeServers() {
  if (!server_.joinable()) return;
  MPI_Barrier(communicator_);
  Send(communicator_, rank_, kRequestTag, std::string(1, kStop));
  server_.join();
  MPI_Comm_free(&communicator_);
}

// Cuts the ordered keys into one slice for each rank: keys begin with 8 hex digits that are evenly
// spread.
int RangeServers::OwnerOf(Slice key) const {
  const uint64_t first = std::stoul(std::string(key.substr(0, 8)), nullptr, 16);
  return static_cast<int>(first * static_cast<uint64_t>(size_) >> 32);
}

Status RangeServers::Put(Slice key, Slice value) {
  const int owner = OwnerOf(key);
  if (owner != rank_) return Ask(owner, kPut, key, value);
  const std::lock_guard<std::mutex> lock(put_mutex_);
  return engine_->Put(key, value);
}

Status RangeServers::Get(Slice key, std::string* value) {
  const int owner = OwnerOf(key);
  if (owner == rank_) {
    Slice found;
    QUIRE_RETURN_IF_ERROR(own_reader_->Get(key, &found));
    value->assign(found);
    return Status();
  }
  QUIRE_RETURN_IF_ERROR(Ask(owner, kGet, key, {}));
  value->assign(message_, 1);
  return Status();
}

Status RangeServers::Ask(int owner, char operation, Slice key, Slice value) {
  const auto key_size = static_cast<uint32_t>(key.size());
  message_.assign(1, operation);
  message_.append(reinterpret_cast<const char*>(&key_size), sizeof key_size);
  message_.append(key).append(value);
  Send(communicator_, owner, kRequestTag, message_);
  Receive(communicator_, owner, kAnswerTag, &message_);
  const auto code = static_cast<Code>(message_[0]);
  return code == Code::kOk ? Status() : Status(code, message_.substr(1));
}

void RangeServers::Serve() {
  std::string request;
  for (;;) {
    const int client = Receive(communicator_, MPI_ANY_SOURCE, kRequestTag, &request);
    if (request[0] == kStop) return;
    Answer(request);
    Send(communicator_, client, kAnswerTag, answer_);
  }
}

void RangeServers::Answer(Slice request) {
  uint32_t key_size = 0;
  std::memcpy(&key_size, request.data() + 1, sizeof key_size);
  const Slice key = request.substr(kRequestHeaderBytes, key_size);
  Slice value;
  Status status;
  if (request[0] == kPut) {
    const std::lock_guard<std::mutex> lock(put_mutex_);
    status = engine_->Put(key, request.substr(kRequestHeaderBytes + key_size));
  } else {
    status = reader_->Get(key, &value);
  }
  answer_.assign(1, static_cast<char>(status.code()));
  answer_.append(status.ok() ? value : Slice(status.message()));
}

}  // namespace quire::bench
