/// What is in a repository: a directory for each database and each dataset, told apart by the file
/// that says what it is.
///
/// Layer      runtime
/// Encoding   docs/format/database.md, docs/format/dataset.md
/// Threads    constants
#pragma once

namespace quire::runtime {

constexpr char kDatabaseFile[] = "DATABASE";
constexpr char kDatasetFile[] = "DATASET";

}  // namespace quire::runtime
