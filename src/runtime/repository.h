/// The content of a repository: a directory for each database and each dataset; a file in it shows
/// which of the two it is.
///
/// Layer      runtime
/// Encoding   docs/format/database.md, docs/format/dataset.md
/// Threads    constants
#pragma once

namespace quire::runtime {

constexpr char kDatabaseFile[] = "DATABASE";
constexpr char kDatasetFile[] = "DATASET";

}  // namespace quire::runtime
