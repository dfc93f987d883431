/// Every option in one table: its name, type, unit, range, default and meaning, and the environment
/// variable (QUIRE_ and the name in capitals) that follows from the name. Programs that take
/// options from files or flags of their own set them by name.
///
/// Layer      public
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/export.h"
#include "quire/status.h"
#include "quire/stream.h"

namespace quire {

/// What an option belongs to.
enum class OptionGroup {
  kContext,   ///< ContextOptions
  kStorage,   ///< DatabaseOptions::storage
  kDatabase,  ///< DatabaseOptions
  kDataset,   ///< DatasetOptions
  kStream,    ///< StreamOptions
};

/// One row of the table.
struct OptionRow {
  /// as the field is called: "memtable_bytes"; of a dataset with "dataset_" before it, of a stream
  /// with "stream_"
  std::string name;
  OptionGroup group;
  std::string
      type;  ///< "number", "bytes", "switch", "text", or the names that may be given: "off|on|sync"
  std::string unit;           ///< "bytes", "ms", "" where it has none
  std::string range;          ///< "65536 .. 17179869184"; "" for switches, names and text
  std::string default_value;  ///< in the form that Set takes
  std::string environment;    ///< "QUIRE_MEMTABLE_BYTES"
  std::string meaning;        ///< one sentence
};

class QUIRE_EXPORT OptionTable {
 public:
  /// All rows: context, storage, database, dataset, stream.
  static const std::vector<OptionRow>& Rows();

  /// Sets one option by name. Bytes may end in KiB, MiB, GiB or TiB; switches are on or off.
  ///
  /// Errors  kInvalidArgument  No such option (the nearest name is told), or the value is not of
  /// its type or out of range.
  static Status Set(const std::string& name, const std::string& value, ContextOptions* options);
  static Status Set(const std::string& name, const std::string& value, DatabaseOptions* options);
  static Status Set(const std::string& name, const std::string& value, DatasetOptions* options);
  static Status Set(const std::string& name, const std::string& value, StreamOptions* options);
  /// The same from "name=value".
  static Status SetFromText(const std::string& assignment, ContextOptions* options);
  static Status SetFromText(const std::string& assignment, DatabaseOptions* options);
  static Status SetFromText(const std::string& assignment, DatasetOptions* options);
  static Status SetFromText(const std::string& assignment, StreamOptions* options);

  /// The value of an option, in the form that Set takes. kInvalidArgument where there is no such
  /// option.
  static Result<std::string> Get(const std::string& name, const ContextOptions& options);
  static Result<std::string> Get(const std::string& name, const DatabaseOptions& options);
  static Result<std::string> Get(const std::string& name, const DatasetOptions& options);
  static Result<std::string> Get(const std::string& name, const StreamOptions& options);

  /// Gives every option that still has its default the value of its environment variable, where
  /// that is set.
  ///
  /// Errors  kInvalidArgument  A variable's value is not of the option's type or out of range:
  /// names it. Or a variable that begins with QUIRE_ has nearly the name of one that Quire reads:
  /// names both.
  static Status ApplyEnvironment(ContextOptions* options);
  static Status ApplyEnvironment(DatabaseOptions* options);
  static Status ApplyEnvironment(DatasetOptions* options);
  static Status ApplyEnvironment(StreamOptions* options);

  /// kInvalidArgument where a field is out of range: names it, its value and the range.
  static Status Check(const ContextOptions& options);
  static Status Check(const DatabaseOptions& options);
  static Status Check(const DatasetOptions& options);
  static Status Check(const StreamOptions& options);

  /// A text with one line per option: its value, where that comes from (program, environment,
  /// default), range and meaning.
  static std::string Explain(const ContextOptions& context, const DatabaseOptions& database,
                             const DatasetOptions& dataset = {}, const StreamOptions& stream = {});
};

}  // namespace quire
