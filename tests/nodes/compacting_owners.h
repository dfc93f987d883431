// Members of a storage group read each other's tables while the owners overwrite and compact them.
//
// Threads: one of each rank; collective. MPI at MPI_THREAD_MULTIPLE: it writes in a second one.
#ifndef QUIRE_TESTS_NODES_COMPACTING_OWNERS_H_
#define QUIRE_TESTS_NODES_COMPACTING_OWNERS_H_

#include <string>

#include "quire/database.h"

namespace quire::test {

/// Options of a database whose owners make many small tables, and whose readers keep few blocks.
DatabaseOptions CompactingDatabase(int group_size);

/// Each rank overwrites its own pairs, flushes and compacts without a pause, and meanwhile reads
/// all pairs of the other members of its group, by every kind of get: for some time, and until it
/// has read tables of each of them often enough, between compactions. Every value must be one that
/// was written for its key, and none older than what the member is known to have acknowledged
/// before the read began.
///
/// Collective   Yes: one outcome on all ranks.
/// @param told  "tables by memory: <n>, by files: <n>, ...": reads of pairs that are in tables
///              alone, without a question, and after asking the owner which tables these are; then
///              gets that asked the owner, and this rank's compactions.
/// Errors       kCorruption  A wrong value, or an old one. kTimedOut: too little was read from
///                           tables in a minute. What a call of the database fails with.
Status ReadWhileOwnersCompact(int group_size, Context& context, Database& db, std::string* told);

}  // namespace quire::test

#endif  // QUIRE_TESTS_NODES_COMPACTING_OWNERS_H_
