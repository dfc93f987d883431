/// The transport between the ranks of a node: a ring per ordered pair in shared memory, and a futex
/// per sleeper. A frame costs one copy, and a system call only where its receiver sleeps.
///
/// Layer      comm
/// Encoding   docs/format/frame.md
/// Threads    as Transport
#pragma once

#include <memory>
#include <vector>

#include "comm/shm/shm_region.h"
#include "comm/transport/transport.h"

namespace quire::comm {

struct ShmPlace {
  int rank = 0;              ///< of this process, in the whole job
  int size = 0;              ///< of the whole job
  std::vector<int> members;  ///< the ranks that share the region, ascending; this one among them
  uint64_t spin_ns = 0;      ///< what spin_ns() answers
};

/// The transport of one member of `region`, which every member has mapped. Frames to other ranks
/// are refused with kInvalidArgument.
std::unique_ptr<Transport> NewShmTransport(std::unique_ptr<ShmRegion> region,
                                           const ShmPlace& place);

}  // namespace quire::comm
