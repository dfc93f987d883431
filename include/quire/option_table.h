/// All options in one table: name, type, unit, range, default, meaning, and environment variable
/// (QUIRE_ and the name in capitals). A program that takes options from its own files or flags can
/// set them by name.
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

/// The structure that an option is a field of.
enum class OptionGroup {
  kContext,   ///< ContextOptions
  kStorage,   ///< DatabaseOptions::storage
  kDatabase,  ///< DatabaseOptions
  kDataset,   ///< DatasetOptions
  kStream,    ///< StreamOptions
};

/// One row of the table.
struct OptionRow {
  /// the field's name: "memtable_bytes"; with the prefix "dataset_" or "stream_" for these groups
  std::string name;
  OptionGroup group;
  std::string
      type;  ///< "number", "bytes", "switch", "text", or the allowed names: "off|on|sync"
  std::string unit;           ///< "bytes", "ms", or ""
  std::string range;          ///< "65536 .. 17179869184"; "" for switches, names and text
  std::string default_value;  ///< in the form that Set takes
  std::string environment;    ///< "QUIRE_MEMTABLE_BYTES"
  std::string meaning;        ///< one sentence
};

class QUIRE_EXPORT OptionTable {
 public:
  /// Returns all rows: context, storage, database, dataset, stream.
  static const std::vector<OptionRow>& Rows();

  /// Sets one option by name. Bytes may end in KiB, MiB, GiB or TiB; switches are on or off.
  ///
  /// Errors  kInvalidArgument  No such option (the text names the nearest one), or the value is not
  /// of the option's type or out of range.
  static Status Set(const std::string& name, const std::string& value, ContextOptions* options);
  static Status Set(const std::string& name, const std::string& value, DatabaseOptions* options);
  static Status Set(const std::string& name, const std::string& value, DatasetOptions* options);
  static Status Set(const std::string& name, const std::string& value, StreamOptions* options);
  /// Sets one option from "name=value".
  static Status SetFromText(const std::string& assignment, ContextOptions* options);
  static Status SetFromText(const std::string& assignment, DatabaseOptions* options);
  static Status SetFromText(const std::string& assignment, DatasetOptions* options);
  static Status SetFromText(const std::string& assignment, StreamOptions* options);

  /// Returns the value of an option, in the form that Set takes. kInvalidArgument: there is no such
  /// option.
  static Result<std::string> Get(const std::string& name, const ContextOptions& options);
  static Result<std::string> Get(const std::string& name, const DatabaseOptions& options);
  static Result<std::string> Get(const std::string& name, const DatasetOptions& options);
  static Result<std::string> Get(const std::string& name, const StreamOptions& options);

  /// Sets every option that still has its default from its environment variable, if that is set.
  ///
  /// Errors  kInvalidArgument  A variable's value is not of the option's type or out of range. Or a
  /// variable that begins with QUIRE_ is probably misspelt. The text names the variable, and the
  /// one that was probably meant.
  static Status ApplyEnvironment(ContextOptions* options);
  static Status ApplyEnvironment(DatabaseOptions* options);
  static Status ApplyEnvironment(DatasetOptions* options);
  static Status ApplyEnvironment(StreamOptions* options);

  /// Returns kInvalidArgument if a field is out of range; the text contains its name, value and
  /// range.
  static Status Check(const ContextOptions& options);
  static Status Check(const DatabaseOptions& options);
  static Status Check(const DatasetOptions& options);
  static Status Check(const StreamOptions& options);

  /// Returns a text with one line per option: its value, the source of the value (program,
  /// environment, default), range and meaning.
  static std::string Explain(const ContextOptions& context, const DatabaseOptions& database,
                             const DatasetOptions& dataset = {}, const StreamOptions& stream = {});
};

}  // namespace quire
