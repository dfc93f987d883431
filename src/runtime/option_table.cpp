#include "quire/option_table.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/text/bytes_text.h"
#include "base/text/units.h"
#include "io/files/machine.h"
#include "runtime/nearest_name.h"

namespace quire {
namespace {

using base::kGiB;
using base::kKiB;
using base::kMiB;
constexpr uint64_t kTiB = 1024 * kGiB;
constexpr uint64_t kBytesMax = uint64_t{1} << 50;
constexpr uint64_t kKeepMsMax = uint64_t{100} * 365 * 86'400'000;

// All structs together, so that one type of row serves all options.
struct AllOptions {
  ContextOptions context;
  DatabaseOptions database;
  DatasetOptions dataset;
  StreamOptions stream;
};

// The struct that contains an option, and its name in error texts.
enum class Scope { kContext, kDatabase, kDataset, kStream };
constexpr const char* kScopeNames[] = {"a context", "a database", "a dataset", "a stream"};

ContextOptions* Part(AllOptions* all, const ContextOptions* /*which*/) {
  return &all->context;
}
DatabaseOptions* Part(AllOptions* all, const DatabaseOptions* /*which*/) {
  return &all->database;
}
DatasetOptions* Part(AllOptions* all, const DatasetOptions* /*which*/) {
  return &all->dataset;
}
StreamOptions* Part(AllOptions* all, const StreamOptions* /*which*/) {
  return &all->stream;
}
constexpr Scope ScopeOf(const ContextOptions* /*which*/) {
  return Scope::kContext;
}
constexpr Scope ScopeOf(const DatabaseOptions* /*which*/) {
  return Scope::kDatabase;
}
constexpr Scope ScopeOf(const DatasetOptions* /*which*/) {
  return Scope::kDataset;
}
constexpr Scope ScopeOf(const StreamOptions* /*which*/) {
  return Scope::kStream;
}

// Returns AllOptions with these options of one kind, and defaults for the others.
template <typename Options>
AllOptions With(const Options& options) {
  AllOptions all;
  *Part(&all, &options) = options;
  return all;
}

// A name and the number it stands for.
struct Choice {
  const char* name;
  uint64_t number;
};

// One option. Every value except text is stored as a number.
struct Field {
  OptionRow row;
  uint64_t least = 0;
  uint64_t most = 0;
  std::vector<Choice> choices;
  std::function<uint64_t(const AllOptions&)> get;
  std::function<void(AllOptions&, uint64_t)> set;
  std::string& (*text)(AllOptions&) = nullptr;
};

enum class NumberKind { kCount, kBytes, kMilliseconds };

std::string EnvironmentName(const std::string& name) {
  std::string variable = "QUIRE_";
  for (char c : name) variable += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

Field NewField(OptionGroup group, const char* name, std::string type, const char* meaning) {
  Field field;
  field.row.name = name;
  field.row.group = group;
  field.row.type = std::move(type);
  field.row.environment = EnvironmentName(name);
  field.row.meaning = meaning;
  return field;
}

// Sets how the field is read and written. `at` finds it in an AllOptions, const or not.
template <typename At>
void Bind(Field* field, At at) {
  using Value = std::remove_reference_t<decltype(at(std::declval<AllOptions&>()))>;
  field->get = [at](const AllOptions& all) {
    return static_cast<uint64_t>(at(const_cast<AllOptions&>(all)));
  };
  field->set = [at](AllOptions& all, uint64_t number) { at(all) = static_cast<Value>(number); };
}

struct Range {
  uint64_t least;
  uint64_t most;
};

template <typename At>
Field Number(OptionGroup group, const char* name, NumberKind kind, Range range, const char* meaning,
             At at) {
  Field field = NewField(group, name, kind == NumberKind::kBytes ? "bytes" : "number", meaning);
  if (kind == NumberKind::kBytes) field.row.unit = "bytes";
  if (kind == NumberKind::kMilliseconds) field.row.unit = "ms";
  field.row.range = std::to_string(range.least) + " .. " + std::to_string(range.most);
  field.least = range.least;
  field.most = range.most;
  Bind(&field, at);
  return field;
}

template <typename At>
Field Choose(OptionGroup group, const char* name, std::vector<Choice> choices, const char* meaning,
             At at) {
  std::string type;
  for (const Choice& choice : choices) type += (type.empty() ? "" : "|") + std::string(choice.name);
  Field field = NewField(group, name, type, meaning);
  field.choices = std::move(choices);
  Bind(&field, at);
  return field;
}

template <typename At>
Field Switch(OptionGroup group, const char* name, const char* meaning, At at) {
  Field field = Choose(group, name, {{"off", 0}, {"on", 1}}, meaning, at);
  field.row.type = "switch";
  return field;
}

Field Text(OptionGroup group, const char* name, const char* meaning,
           std::string& (*at)(AllOptions&)) {
  Field field = NewField(group, name, "text", meaning);
  field.text = at;
  return field;
}

template <typename Enum>
constexpr uint64_t N(Enum value) {
  return static_cast<uint64_t>(value);
}

// Returns the place of a field, as a function of AllOptions.
#define QUIRE_CONTEXT_FIELD(name) \
  [](AllOptions & all) -> auto& { \
    return all.context.name;      \
  }
#define QUIRE_STORAGE_FIELD(name)     \
  [](AllOptions & all) -> auto& {     \
    return all.database.storage.name; \
  }
#define QUIRE_DATABASE_FIELD(name) \
  [](AllOptions & all) -> auto& {  \
    return all.database.name;      \
  }
#define QUIRE_DATASET_FIELD(name) \
  [](AllOptions & all) -> auto& { \
    return all.dataset.name;      \
  }
#define QUIRE_STREAM_FIELD(name)  \
  [](AllOptions & all) -> auto& { \
    return all.stream.name;       \
  }

void AddContextFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kContext;
  fields->push_back(Number(kGroup, "timeout_ms", NumberKind::kMilliseconds, {100, 86'400'000},
                           "Deadline of every wait for another rank.",
                           QUIRE_CONTEXT_FIELD(timeout_ms)));
  fields->push_back(Choose(
      kGroup, "transport", {{"auto", N(TransportChoice::kAuto)}, {"mpi", N(TransportChoice::kMpi)}},
      "Transport between ranks of a node: auto is shared memory if possible, mpi is always MPI.",
      QUIRE_CONTEXT_FIELD(transport)));
  fields->push_back(Number(kGroup, "memory_bytes", NumberKind::kBytes, {0, kBytesMax},
                           "Limit on this rank's memory for databases and datasets; 0: a share of "
                           "the cgroup's or the machine's.",
                           QUIRE_CONTEXT_FIELD(memory_bytes)));
  fields->push_back(Number(kGroup, "background_threads", NumberKind::kCount, {1, 64},
                           "Threads per rank for flushing and compaction.",
                           QUIRE_CONTEXT_FIELD(background_threads)));
}

void AddMemTableFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kStorage;
  fields->push_back(Number(kGroup, "memtable_bytes", NumberKind::kBytes, {64 * kKiB, 16 * kGiB},
                           "Capacity of a MemTable, which is its log segment.",
                           QUIRE_STORAGE_FIELD(memtable_bytes)));
  fields->push_back(Number(kGroup, "flushing_queue_length", NumberKind::kCount, {1, 64},
                           "Immutable MemTables that may wait for flushing before writers wait.",
                           QUIRE_STORAGE_FIELD(flushing_queue_length)));
  fields->push_back(
      Choose(kGroup, "wal",
             {{"off", N(WalMode::kOff)}, {"on", N(WalMode::kOn)}, {"sync", N(WalMode::kSync)}},
             "The failures that a put survives: none (off), kill -9 (on), power loss (sync).",
             QUIRE_STORAGE_FIELD(wal)));
  fields->push_back(Number(kGroup, "value_separation_bytes_min", NumberKind::kBytes,
                           {64, uint64_t{1} << 32},
                           "Values of this size or larger are stored apart from their keys.",
                           QUIRE_STORAGE_FIELD(value_separation_bytes_min)));
  fields->push_back(Number(kGroup, "value_segment_bytes", NumberKind::kBytes,
                           {64 * kKiB, 16 * kGiB}, "Size of a file of large values.",
                           QUIRE_STORAGE_FIELD(value_segment_bytes)));
}

void AddTableFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kStorage;
  fields->push_back(Number(kGroup, "block_bytes", NumberKind::kBytes, {512, kMiB},
                           "Size of a table's block before compression.",
                           QUIRE_STORAGE_FIELD(block_bytes)));
  fields->push_back(Number(kGroup, "bloom_bits_per_key", NumberKind::kCount, {0, 32},
                           "Bits of the Bloom filter per key; 0: no filter.",
                           QUIRE_STORAGE_FIELD(bloom_bits_per_key)));
  fields->push_back(Choose(kGroup, "compression",
                           {{"none", N(Compression::kNone)},
                            {"lz4", N(Compression::kLz4)},
                            {"zstd", N(Compression::kZstd)}},
                           "Compression of table blocks.", QUIRE_STORAGE_FIELD(compression)));
  fields->push_back(Choose(kGroup, "search",
                           {{"sequential", N(SearchMode::kSequential)},
                            {"binary", N(SearchMode::kBinary)},
                            {"tagged", N(SearchMode::kTagged)}},
                           "How a table is searched.", QUIRE_STORAGE_FIELD(search)));
  fields->push_back(Number(kGroup, "table_bytes_max", NumberKind::kBytes, {64 * kKiB, 64 * kGiB},
                           "A compaction starts a new table at this size.",
                           QUIRE_STORAGE_FIELD(table_bytes_max)));
  fields->push_back(Choose(
      kGroup, "compaction",
      {{"tiered", N(CompactionPolicy::kTiered)}, {"every_nth", N(CompactionPolicy::kEveryNth)}},
      "Rule by which tables are merged.", QUIRE_STORAGE_FIELD(compaction)));
  fields->push_back(Number(kGroup, "compaction_trigger", NumberKind::kCount, {2, 1000},
                           "Number of similar-sized runs that are merged (tiered); N (every_nth).",
                           QUIRE_STORAGE_FIELD(compaction_trigger)));
  fields->push_back(Number(kGroup, "dead_percent_max", NumberKind::kCount, {10, 1000},
                           "Size of the newer runs, in per cent of the oldest, that merges all.",
                           QUIRE_STORAGE_FIELD(dead_percent_max)));
  fields->push_back(Number(kGroup, "cache_bytes", NumberKind::kBytes, {0, kBytesMax},
                           "Cache for blocks, indexes and filters of tables.",
                           QUIRE_STORAGE_FIELD(cache_bytes)));
  fields->push_back(Switch(kGroup, "verify_checksums",
                           "Verify the checksums of blocks; off is recorded in the tables.",
                           QUIRE_STORAGE_FIELD(verify_checksums)));
}

void AddModeFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kDatabase;
  fields->push_back(Choose(kGroup, "mode",
                           {{"open_or_create", N(OpenMode::kOpenOrCreate)},
                            {"must_exist", N(OpenMode::kMustExist)},
                            {"must_not_exist", N(OpenMode::kMustNotExist)}},
                           "Whether Open opens an existing database, creates one, or both.",
                           QUIRE_DATABASE_FIELD(mode)));
  fields->push_back(
      Choose(kGroup, "consistency",
             {{"sequential", N(Consistency::kSequential)}, {"relaxed", N(Consistency::kRelaxed)}},
             "When other ranks see a write: at once, or after a fence.",
             QUIRE_DATABASE_FIELD(consistency)));
  fields->push_back(Choose(kGroup, "protection",
                           {{"read_write", N(Protection::kReadWrite)},
                            {"write_only", N(Protection::kWriteOnly)},
                            {"read_only", N(Protection::kReadOnly)},
                            {"update_only", N(Protection::kUpdateOnly)}},
                           "Operations that are allowed after Open.",
                           QUIRE_DATABASE_FIELD(protection)));
  fields->push_back(Text(kGroup, "partitioner_name",
                         "Stored name of the function that returns a key's owner rank.",
                         QUIRE_DATABASE_FIELD(partitioner_name)));
}

void AddDatabaseFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kDatabase;
  AddModeFields(fields);
  fields->push_back(Number(kGroup, "local_cache_bytes", NumberKind::kBytes, {0, kBytesMax},
                           "Cache of pairs read from this rank's tables; 0: off.",
                           QUIRE_DATABASE_FIELD(local_cache_bytes)));
  fields->push_back(Number(kGroup, "remote_cache_bytes", NumberKind::kBytes, {0, kBytesMax},
                           "Cache of other ranks' pairs while protected read_only; 0: off.",
                           QUIRE_DATABASE_FIELD(remote_cache_bytes)));
  fields->push_back(Number(kGroup, "migrate_batch_bytes", NumberKind::kBytes, {kKiB, 16 * kMiB},
                           "Size of the batches in which staged puts are sent to an owner.",
                           QUIRE_DATABASE_FIELD(migrate_batch_bytes)));
  fields->push_back(Number(kGroup, "remote_memtable_bytes", NumberKind::kBytes,
                           {64 * kKiB, kBytesMax},
                           "Limit on this rank's staged remote puts; further ones wait.",
                           QUIRE_DATABASE_FIELD(remote_memtable_bytes)));
  fields->push_back(Number(kGroup, "group_size", NumberKind::kCount, {0, 1 << 30},
                           "Ranks per storage group; 0: one group for each node; 1: no groups.",
                           QUIRE_DATABASE_FIELD(group_size)));
  fields->push_back(Switch(kGroup, "redistribute",
                           "Move pairs of another number of ranks before Open returns.",
                           QUIRE_DATABASE_FIELD(redistribute)));
  fields->push_back(Switch(kGroup, "force_redistribute",
                           "Move all pairs before Open returns, even if the ranks are as many.",
                           QUIRE_DATABASE_FIELD(force_redistribute)));
  fields->push_back(Number(kGroup, "memory_percent_max", NumberKind::kCount, {0, 100},
                           "Most of the remaining memory to plan with; 0: at most a half, and "
                           "only default sizes are reduced.",
                           QUIRE_DATABASE_FIELD(memory_percent_max)));
}

void AddDatasetFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kDataset;
  fields->push_back(Choose(kGroup, "dataset_format",
                           {{"base", N(DatasetFormat::kBase)},
                            {"pointer", N(DatasetFormat::kPointer)},
                            {"bloom", N(DatasetFormat::kBloom)},
                            {"cuckoo", N(DatasetFormat::kCuckoo)},
                            {"ribbon", N(DatasetFormat::kRibbon)}},
                           "Data of a pair that its partition receives, and the index built.",
                           QUIRE_DATASET_FIELD(format)));
  fields->push_back(Number(kGroup, "dataset_bloom_ranks", NumberKind::kCount, {0, 1 << 24},
                           "bloom: ranks that a query asks on average; 0: 4 + log2 N bits a key.",
                           QUIRE_DATASET_FIELD(bloom_ranks)));
  fields->push_back(Number(kGroup, "dataset_batch_bytes", NumberKind::kBytes, {kKiB, 16 * kMiB},
                           "Payload of a message.", QUIRE_DATASET_FIELD(batch_bytes)));
  fields->push_back(Number(kGroup, "dataset_table_bytes", NumberKind::kBytes,
                           {64 * kKiB, 64 * kGiB}, "Size of each of the two write buffers.",
                           QUIRE_DATASET_FIELD(table_bytes)));
  fields->push_back(Number(kGroup, "dataset_partition_bytes", NumberKind::kBytes,
                           {64 * kKiB, 64 * kGiB},
                           "Size of a partition's buffer; a full one becomes a map or a table.",
                           QUIRE_DATASET_FIELD(partition_bytes)));
  fields->push_back(Number(kGroup, "dataset_in_flight_bytes", NumberKind::kBytes,
                           {64 * kKiB, 16 * kGiB},
                           "Limit on batches that are sent but not yet acknowledged.",
                           QUIRE_DATASET_FIELD(in_flight_bytes)));
  fields->push_back(Number(kGroup, "dataset_grid_ranks_min", NumberKind::kCount, {2, 1 << 24},
                           "Number of ranks from which on batches travel in two hops.",
                           QUIRE_DATASET_FIELD(grid_ranks_min)));
  fields->push_back(Number(kGroup, "dataset_block_bytes", NumberKind::kBytes, {512, kMiB},
                           "Size of a table's block before compression.",
                           QUIRE_DATASET_FIELD(block_bytes)));
  fields->push_back(Choose(kGroup, "dataset_compression",
                           {{"none", N(Compression::kNone)},
                            {"lz4", N(Compression::kLz4)},
                            {"zstd", N(Compression::kZstd)}},
                           "Compression of the blocks of tables.",
                           QUIRE_DATASET_FIELD(compression)));
  fields->push_back(Text(kGroup, "dataset_partitioner_name",
                         "Stored name of the function that returns a key's partition.",
                         QUIRE_DATASET_FIELD(partitioner_name)));
}

void AddStreamLogFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kStream;
  fields->push_back(Number(kGroup, "stream_log_bytes", NumberKind::kBytes, {kMiB, 16 * kTiB},
                           "Size of a rank's log; to keep k versions of s bytes plan (k + 2) s, "
                           "with deltas (k + full_every + 2) s.",
                           QUIRE_STREAM_FIELD(log_bytes)));
  fields->push_back(Number(kGroup, "stream_keep_versions", NumberKind::kCount, {1, 1 << 20},
                           "How many of the newest versions of each object are kept.",
                           QUIRE_STREAM_FIELD(keep_versions)));
  fields->push_back(Number(kGroup, "stream_keep_ms", NumberKind::kMilliseconds, {0, kKeepMsMax},
                           "Also keep versions that are younger than this.",
                           QUIRE_STREAM_FIELD(keep_ms)));
  fields->push_back(Number(kGroup, "stream_collect_percent", NumberKind::kCount, {10, 100},
                           "Percentage of the log in use at which collection starts.",
                           QUIRE_STREAM_FIELD(collect_percent)));
  fields->push_back(Number(kGroup, "stream_wait_ms", NumberKind::kMilliseconds, {0, 86'400'000},
                           "How long a put waits while readers hold the log; 0: fail at once.",
                           QUIRE_STREAM_FIELD(wait_ms)));
  fields->push_back(Number(kGroup, "stream_objects_max", NumberKind::kCount, {1, 1 << 20},
                           "Capacity of the index, in objects.", QUIRE_STREAM_FIELD(objects_max)));
}

void AddStreamDeltaFields(std::vector<Field>* fields) {
  constexpr OptionGroup kGroup = OptionGroup::kStream;
  fields->push_back(Choose(kGroup, "stream_deltas",
                           {{"off", N(StreamDeltas::kOff)},
                            {"auto", N(StreamDeltas::kAuto)},
                            {"hash", N(StreamDeltas::kHash)},
                            {"protect", N(StreamDeltas::kProtect)},
                            {"watch", N(StreamDeltas::kWatch)}},
                           "How versions are stored, and how changed blocks are detected.",
                           QUIRE_STREAM_FIELD(deltas)));
  fields->push_back(Number(kGroup, "stream_full_every", NumberKind::kCount, {1, 1024},
                           "Store a full version at least once every so many versions.",
                           QUIRE_STREAM_FIELD(full_every)));
  fields->push_back(Number(kGroup, "stream_audit_every", NumberKind::kCount, {0, 1 << 20},
                           "Hash all objects every so many snapshots; 0 disables audits.",
                           QUIRE_STREAM_FIELD(audit_every)));
  fields->push_back(Choose(kGroup, "stream_compression",
                           {{"none", N(Compression::kNone)}, {"lz4", N(Compression::kLz4)}},
                           "Compression of versions.", QUIRE_STREAM_FIELD(compression)));
}

#undef QUIRE_STREAM_FIELD
#undef QUIRE_DATASET_FIELD
#undef QUIRE_CONTEXT_FIELD
#undef QUIRE_STORAGE_FIELD
#undef QUIRE_DATABASE_FIELD

std::string TextOf(const Field& field, const AllOptions& all) {
  if (field.text != nullptr) return field.text(const_cast<AllOptions&>(all));
  const uint64_t number = field.get(all);
  for (const Choice& choice : field.choices) {
    if (choice.number == number) return choice.name;
  }
  return std::to_string(number);
}

std::vector<Field> MakeFields() {
  std::vector<Field> fields;
  AddContextFields(&fields);
  AddMemTableFields(&fields);
  AddTableFields(&fields);
  AddDatabaseFields(&fields);
  AddDatasetFields(&fields);
  AddStreamLogFields(&fields);
  AddStreamDeltaFields(&fields);
  const AllOptions defaults;
  for (Field& field : fields) field.row.default_value = TextOf(field, defaults);
  return fields;
}

const std::vector<Field>& Fields() {
  static const std::vector<Field>* const fields = new std::vector<Field>(MakeFields());
  return *fields;
}

Scope ScopeOf(const Field& field) {
  switch (field.row.group) {
    case OptionGroup::kContext:
      return Scope::kContext;
    case OptionGroup::kDataset:
      return Scope::kDataset;
    case OptionGroup::kStream:
      return Scope::kStream;
    default:
      return Scope::kDatabase;
  }
}

Status NoSuchOption(const std::string& name, Scope scope) {
  const std::string text = "there is no option \"" + name.substr(0, 64) + "\" of " +
                           kScopeNames[static_cast<size_t>(scope)];
  for (const Field& field : Fields()) {
    if (field.row.name != name) continue;
    return Status(Code::kInvalidArgument, text + "; it is an option of " +
                                              kScopeNames[static_cast<size_t>(ScopeOf(field))]);
  }
  std::vector<std::string> known;
  for (const Field& field : Fields()) {
    if (ScopeOf(field) == scope) known.push_back(field.row.name);
  }
  return Status(Code::kInvalidArgument,
                text + "; the nearest is \"" + runtime::FindNearestName(name, known).name + "\"");
}

Result<const Field*> FindField(const std::string& name, Scope scope) {
  for (const Field& field : Fields()) {
    if (field.row.name == name && ScopeOf(field) == scope) return &field;
  }
  return NoSuchOption(name, scope);
}

Status BadValue(const Field& field, const std::string& value) {
  std::string wanted = field.row.type;
  if (!field.row.range.empty()) wanted += " in " + field.row.range;
  if (wanted == "switch") wanted = "on or off";
  if (field.row.type == "bytes") wanted += std::string("; its units are ") + base::kByteUnits;
  return Status(Code::kInvalidArgument, "option " + field.row.name + " is \"" +
                                            value.substr(0, 64) + "\"; it must be " + wanted);
}

std::optional<uint64_t> ParseChoice(const Field& field, const std::string& value) {
  for (const Choice& choice : field.choices) {
    if (value == choice.name) return choice.number;
  }
  if (field.row.type == "switch") {
    if (value == "true" || value == "1") return 1;
    if (value == "false" || value == "0") return 0;
  }
  return std::nullopt;
}

std::optional<uint64_t> ParseNumber(const Field& field, const std::string& value) {
  if (field.row.type == "bytes") return base::ParseBytes(value);
  uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

Status SetField(const Field& field, const std::string& value, AllOptions* all) {
  if (field.text != nullptr) {
    if (value.size() > 255) return BadValue(field, value);
    field.text(*all) = value;
    return Status();
  }
  if (!field.choices.empty()) {
    const auto number = ParseChoice(field, value);
    if (!number) return BadValue(field, value);
    field.set(*all, *number);
    return Status();
  }
  const auto number = ParseNumber(field, value);
  if (!number || *number < field.least || *number > field.most) return BadValue(field, value);
  field.set(*all, *number);
  return Status();
}

template <typename Options>
Status SetByName(const std::string& name, const std::string& value, Options* options) {
  QUIRE_ASSIGN_OR_RETURN(const Field* field, FindField(name, ScopeOf(options)));
  AllOptions all = With(*options);
  QUIRE_RETURN_IF_ERROR(SetField(*field, value, &all));
  *options = *Part(&all, options);
  return Status();
}

template <typename Options>
Result<std::string> GetByName(const std::string& name, const Options& options) {
  QUIRE_ASSIGN_OR_RETURN(const Field* field, FindField(name, ScopeOf(&options)));
  return TextOf(*field, With(options));
}

Status CheckField(const Field& field, const AllOptions& all) {
  if (field.text != nullptr) {
    const std::string& text = field.text(const_cast<AllOptions&>(all));
    const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
      return static_cast<unsigned char>(c) >= ' ' && static_cast<unsigned char>(c) < 127;
    });
    return text.size() <= 255 && printable ? Status() : BadValue(field, text);
  }
  const uint64_t number = field.get(all);
  if (field.choices.empty()) {
    // A negative int arrives here as a huge number, and is reported as the program gave it.
    const bool good = number >= field.least && number <= field.most;
    return good ? Status() : BadValue(field, std::to_string(static_cast<int64_t>(number)));
  }
  for (const Choice& choice : field.choices) {
    if (choice.number == number) return Status();
  }
  return BadValue(field, std::to_string(number));
}

template <typename Options>
Status CheckAll(const Options& options) {
  const AllOptions all = With(options);
  for (const Field& field : Fields()) {
    if (ScopeOf(field) == ScopeOf(&options)) QUIRE_RETURN_IF_ERROR(CheckField(field, all));
  }
  return Status();
}

template <typename Options>
Status ApplyEnvironmentTo(Options* options) {
  QUIRE_RETURN_IF_ERROR(runtime::CheckVariableNames());
  AllOptions all = With(*options);
  for (const Field& field : Fields()) {
    if (ScopeOf(field) != ScopeOf(options)) continue;
    if (TextOf(field, all) != field.row.default_value) continue;
    const auto value = io::Environment(field.row.environment.c_str());
    if (!value || value->empty()) continue;
    const Status set = SetField(field, *value, &all);
    if (!set.ok()) return set.WithContext("environment variable " + field.row.environment);
  }
  *options = *Part(&all, options);
  return Status();
}

Status SplitAssignment(const std::string& assignment, std::string* name, std::string* value) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    return Status(Code::kInvalidArgument,
                  "\"" + assignment.substr(0, 64) + "\" is not of the form name=value");
  }
  *name = assignment.substr(0, equals);
  *value = assignment.substr(equals + 1);
  return Status();
}

template <typename Options>
Status SetFromAssignment(const std::string& assignment, Options* options) {
  std::string name, value;
  QUIRE_RETURN_IF_ERROR(SplitAssignment(assignment, &name, &value));
  return SetByName(name, value, options);
}

}  // namespace

Status runtime::CheckVariableNames() {
  std::vector<std::string> known;
  for (const Field& field : Fields()) known.push_back(field.row.environment);
  return CheckVariableNames(known);
}

const std::vector<OptionRow>& OptionTable::Rows() {
  static const std::vector<OptionRow>* const rows = [] {
    auto* made = new std::vector<OptionRow>;
    for (const Field& field : Fields()) made->push_back(field.row);
    return made;
  }();
  return *rows;
}

Status OptionTable::Set(const std::string& name, const std::string& value,
                        ContextOptions* options) {
  return SetByName(name, value, options);
}

Status OptionTable::Set(const std::string& name, const std::string& value,
                        DatabaseOptions* options) {
  return SetByName(name, value, options);
}

Status OptionTable::Set(const std::string& name, const std::string& value,
                        DatasetOptions* options) {
  return SetByName(name, value, options);
}

Status OptionTable::Set(const std::string& name, const std::string& value, StreamOptions* options) {
  return SetByName(name, value, options);
}

Status OptionTable::SetFromText(const std::string& assignment, ContextOptions* options) {
  return SetFromAssignment(assignment, options);
}

Status OptionTable::SetFromText(const std::string& assignment, DatabaseOptions* options) {
  return SetFromAssignment(assignment, options);
}

Status OptionTable::SetFromText(const std::string& assignment, DatasetOptions* options) {
  return SetFromAssignment(assignment, options);
}

Status OptionTable::SetFromText(const std::string& assignment, StreamOptions* options) {
  return SetFromAssignment(assignment, options);
}

Result<std::string> OptionTable::Get(const std::string& name, const ContextOptions& options) {
  return GetByName(name, options);
}

Result<std::string> OptionTable::Get(const std::string& name, const DatabaseOptions& options) {
  return GetByName(name, options);
}

Result<std::string> OptionTable::Get(const std::string& name, const DatasetOptions& options) {
  return GetByName(name, options);
}

Result<std::string> OptionTable::Get(const std::string& name, const StreamOptions& options) {
  return GetByName(name, options);
}

Status OptionTable::ApplyEnvironment(ContextOptions* options) {
  return ApplyEnvironmentTo(options);
}

Status OptionTable::ApplyEnvironment(DatabaseOptions* options) {
  return ApplyEnvironmentTo(options);
}

Status OptionTable::ApplyEnvironment(DatasetOptions* options) {
  return ApplyEnvironmentTo(options);
}

Status OptionTable::ApplyEnvironment(StreamOptions* options) {
  return ApplyEnvironmentTo(options);
}

Status OptionTable::Check(const ContextOptions& options) {
  return CheckAll(options);
}

Status OptionTable::Check(const DatabaseOptions& options) {
  return CheckAll(options);
}

Status OptionTable::Check(const DatasetOptions& options) {
  return CheckAll(options);
}

Status OptionTable::Check(const StreamOptions& options) {
  return CheckAll(options);
}

std::string OptionTable::Explain(const ContextOptions& context, const DatabaseOptions& database,
                                 const DatasetOptions& dataset, const StreamOptions& stream) {
  const AllOptions all{context, database, dataset, stream};
  std::string text;
  for (const Field& field : Fields()) {
    const OptionRow& row = field.row;
    std::string value = TextOf(field, all);
    std::string source = "program";
    if (value == row.default_value) {
      source = "default";
      if (const auto set = io::Environment(row.environment.c_str()); set && !set->empty()) {
        value = *set;
        source = "environment " + row.environment;
      }
    }
    text += row.name + " = " + value + "  (" + source + "; " + row.type;
    if (!row.range.empty()) text += ", " + row.range;
    if (source != "default") text += "; default " + row.default_value;
    text += ")\n    " + row.meaning + "\n";
  }
  return text;
}

}  // namespace quire
