#include "kv/group/shared_memory_group_reader.h"

#include "base/core/log_sink.h"
#include "base/text/coding.h"
#include "kv/group/file_group_reader.h"
#include "kv/protocol/part_engine.h"

namespace quire::kv {
namespace {

// Returns a rank's announcement: the places of its tables and of its memory.
std::string Announce(engine::NeighbourReadable* own, const std::string& directory) {
  std::string text;
  if (own == nullptr || own->region_name().empty()) return text;
  base::PutFixed<uint64_t>(&text, own->region_bytes());
  base::PutLengthPrefixed(&text, own->region_name());
  base::PutLengthPrefixed(&text, directory);
  return text;
}

}  // namespace

bool SharedMemoryGroupReader::Possible(comm::Exchange& exchange) {
  for (int rank = 0; rank < exchange.size(); ++rank) {
    if (rank != exchange.rank() && exchange.transport().SharesMemory(rank)) return true;
  }
  return false;
}

Status SharedMemoryGroupReader::Attach(const Environment& environment,
                                       engine::NeighbourReadable* own,
                                       const std::string& own_directory) {
  comm::Exchange& exchange = *environment.exchange;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> announcements,
                         exchange.AllGather(Announce(own, own_directory)));
  readers_.resize(announcements.size());
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const bool near = exchange.transport().SharesMemory(rank);
    if (rank == exchange.rank() || !near) continue;
    if (!SameGroup(rank, exchange.rank(), environment.group_size, near)) continue;
    AttachOne(environment, rank, announcements[static_cast<size_t>(rank)]);
  }
  const Status all_attached = exchange.Barrier();
  if (own != nullptr) own->UnlinkRegion();
  return all_attached;
}

void SharedMemoryGroupReader::AttachOne(const Environment& environment, int rank,
                                        Slice announcement) {
  if (announcement.empty()) return;
  base::ByteReader reader(announcement);
  uint64_t region_bytes = 0;
  Slice region_name, directory;
  if (!reader.Fixed(&region_bytes) || !reader.LengthPrefixed(&region_name) ||
      !reader.LengthPrefixed(&directory)) {
    return;
  }
  auto opened = PartsOnDisk().OpenPeer(
      *environment.fs, {std::string(directory), std::string(region_name), region_bytes},
      {environment.storage, environment.cache});
  if (opened.ok()) {
    readers_[static_cast<size_t>(rank)] = std::move(*opened);
    ++attached_count_;
  } else if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning, "no direct reads from rank " + std::to_string(rank) + ": " +
                                      opened.status().ToString());
  }
}

}  // namespace quire::kv
