"""What sabotage.py leaves out of merges, large values, and a restart in place."""
from sabotage_kind import Sabotage

LSM = "quire_lsm_test"
HANDLES = ("  sources->young_segments =\n"
           "      segments_.HandlesBetween(sources->version->segments_floor, "
           "values_->next_id());\n")

ENGINE_SABOTAGES = [
    Sabotage("restart-unsynced-name", "a restart in place builds on a name that nobody synced",
             "src/kv/persistence/restart.cpp",
             "  if (options_.in_place) QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(home));\n", "",
             "quire_kv_test", "RestartInPlace.Outlives*"),
    Sabotage("merge-of-another", "a long merge keeps the merges of other databases waiting",
             "src/base/executor.cpp", "constexpr int kLongJobsMax = 2;",
             "constexpr int kLongJobsMax = 1;", "quire_base_test", "ThreadPool.RunsALongJob*"),
    Sabotage("merge-due-elsewhere", "flushes wait for a merge of all that has no thread",
             "src/lsm/db/db_flush.cpp", "PickLocked(MergeSize::kShort)",
             "PickLocked(MergeSize::kAny)", LSM, "Policies/TwoDatabases.*"),
    Sabotage("compact-idle", "Compact waits until nothing is left to be done",
             "src/lsm/db/db_compact.cpp", "return compacts_done_ >= mine;", "return jobs_ == 0;",
             LSM, "Compact.Returns*"),
    Sabotage("merge-room", "each flush has a merge tried again that found no room",
             "src/lsm/db/db_compact.cpp",
             "    merge_bytes_end_ = std::min(merge_bytes_end_, bytes);\n", "",
             LSM, "MergeWithoutRoom.IsTried*"),
    Sabotage("collect-room", "a value that finds no room keeps tables from being merged",
             "src/lsm/db/db_compact.cpp", "  if (merge.collect.empty()) {\n", "  if (true) {\n",
             LSM, "MergeWithoutRoom.OfValues*"),
    Sabotage("iterator-segments", "an iterator does not hold the values stored while it begins",
             "src/lsm/db/db_read.cpp",
             "  base::SyncPoint(\"lsm.iterator.pinned\");\n"
             "  const uint64_t now = sources->version->active->table().QuiescedLsn();\n" + HANDLES,
             HANDLES +
             "  base::SyncPoint(\"lsm.iterator.pinned\");\n"
             "  const uint64_t now = sources->version->active->table().QuiescedLsn();\n",
             LSM, "AnIterator.*"),
    Sabotage("large-value-guard", "a large value is stored while everybody waits",
             "src/lsm/db/db_write.cpp", "  const bool apart = MayHoldUp(ops);",
             "  const bool apart = false;", LSM, "ALargeValue.HoldsUp*"),
    Sabotage("large-value-graced", "the grace period of a segment does not wait for a large value",
             "src/lsm/version/segment_tracker.cpp", "    if (Protected(id)) continue;\n", "",
             LSM, "ALargeValue.IsThere*"),
    Sabotage("large-value-read", "a large value is read while everybody waits",
             "src/lsm/db/db_read.cpp", "late->reference.value_size >= kHoldUpBytes", "false",
             LSM, "ALargeValue.*IsRead"),
    Sabotage("update-guard", "a function of the program runs while everybody waits",
             "src/lsm/db/db_update.cpp", "    bool write = false;\n",
             "    bool write = false;\n    const base::EpochGuard guard;\n",
             LSM, "AnUpdate.*"),
    Sabotage("drops-logged", "what a recovery drops is counted, and not logged",
             "src/lsm/db/db_open.cpp",
             "  if (log.holes != 0 && base::LogEnabled()) LogHoles(log);\n", "",
             LSM, "Crash.WhatAPowerLossCutOff*"),
    Sabotage("reader-lock", "a reader needs a lock, which some file systems do not have",
             "src/lsm/offline/reader_view.cpp",
             "  QUIRE_ASSIGN_OR_RETURN(view->writer, ",
             "  QUIRE_RETURN_IF_ERROR(fs_.Lock(LockPath(directory_), \"a reader\").status());\n"
             "  QUIRE_ASSIGN_OR_RETURN(view->writer, ",
             "quire_kv_test", "DatabaseReading.NeedsNoLocks"),
]
