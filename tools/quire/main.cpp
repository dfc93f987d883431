// quire: inspects repositories without a running job. commands.h has the options of each command;
// docs/tool.md describes its output.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/printable.h"
#include "io/files/descriptor.h"
#include "quire/version.h"
#include "runtime/nearest_name.h"
#include "tools/quire/commands.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 all is well; 1 something is wrong (damage, an absent key, a finding);\n"
    "2 the command line is not understood; 3 nothing could be done (no such database, no\n"
    "permission, open elsewhere, no room).";

constexpr char kExamples[] =
    "Examples:\n"
    "  quire ls /scratch/run7\n"
    "  quire get /scratch/run7/kmers ACGT\n"
    "  quire verify --progress /scratch/run7\n"
    "  quire checkpoint list /project/checkpoints\n"
    "  quire scan --help        (options and examples of a subcommand)\n\n";

using Run = std::function<int()>;

// Adds a subcommand with the parts that all subcommands have.
CLI::App* Add(CLI::App& app, const char* name, const char* what, const std::string& examples,
              bool* json) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer("Examples:\n" + examples + "\n" + kExitCodes);
  command->add_flag("--json", *json, "JSON on standard output");
  return command;
}

[[noreturn]] void Refuse(const std::string& option, const std::string& given,
                         const std::string& wanted) {
  throw CLI::ValidationError(option + " is \"" + given + "\"; it must be " + wanted);
}

// Adds an option that accepts only the names as values.
template <typename Value>
void AddChoice(CLI::App* command, const std::string& option, const std::string& what,
               const std::vector<std::pair<std::string, Value>>& names, Value* chosen) {
  std::string wanted;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != 0) wanted += i + 1 == names.size() ? " or " : ", ";
    wanted += names[i].first;
  }
  const auto choose = [option, names, wanted, chosen](const std::string& given) {
    for (const auto& [name, value] : names) {
      if (name != given) continue;
      *chosen = value;
      return;
    }
    Refuse(option, given, wanted);
  };
  command->add_option_function<std::string>(option, choose, what + ": " + wanted)
      ->type_name("NAME");
}

// Adds an option for a decimal whole number of at least `least`.
template <typename Number>
CLI::Option* AddNumber(CLI::App* command, const std::string& name, Number least,
                       const std::string& what, std::function<void(Number)> set) {
  const auto parse = [name, least, set = std::move(set)](const std::string& given) {
    Number number = 0;
    const char* const end = given.data() + given.size();
    const auto [rest, error] = std::from_chars(given.data(), end, number);
    if (error == std::errc::result_out_of_range && given[0] != '-') {
      Refuse(name, given, "at most " + std::to_string(std::numeric_limits<Number>::max()));
    }
    if (error != std::errc() || rest != end || number < least) {
      Refuse(name, given, "a number, " + std::to_string(least) + " or more");
    }
    set(number);
  };
  return command->add_option_function<std::string>(name, parse, what)->type_name("NUMBER");
}

template <typename Number, typename Target>
CLI::Option* AddNumber(CLI::App* command, const std::string& name, Number least,
                       const std::string& what, Target* target) {
  return AddNumber<Number>(command, name, least, what,
                           [target](Number number) { *target = number; });
}

void AddFormat(CLI::App* command, ByteFormat* format) {
  AddChoice<ByteFormat>(
      command, "--format", "how bytes are shown (text: others than printable ones as \\xNN)",
      {{"text", ByteFormat::kText}, {"hex", ByteFormat::kHex}, {"json", ByteFormat::kJson}},
      format);
}

void AddLimit(CLI::App* command, uint64_t* limit) {
  AddNumber<uint64_t>(command, "--limit", 1, "pairs at most; without it all", limit);
}

void AddRank(CLI::App* command, std::optional<uint32_t>* rank) {
  AddNumber<uint32_t>(command, "RANK", 0, "of this rank alone", rank);
}

void AddHexKeys(CLI::App* command, bool* hex_keys) {
  command->add_flag("--hex", *hex_keys, "keys on the command line are hexadecimal digits");
}

void AddPaths(CLI::App* command, std::vector<std::string>* paths) {
  command->add_option("REPOSITORY", *paths, "repositories, databases, checkpoints or ranks' parts")
      ->required();
}

void AddCheckpoints(CLI::App* command, std::vector<std::string>* paths) {
  command->add_option("CHECKPOINT", *paths, "directories of checkpoints, or of one")->required();
}

void AddPlace(CLI::App* command, std::string* path) {
  command->add_option("PLACE", *path, "the directory that the program gave")->required();
}

class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {
    AddLooking();
    AddReading();
    AddMending();
    AddTending();
    AddCheckpoint();
    AddDataset();
    AddStream();
  }
  int RunParsed() const {
    for (const auto& [command, run] : runs_) {
      if (command->parsed()) return run();
    }
    return kWrongUsage;
  }

 private:
  void AddLooking() {
    CLI::App* ls =
        Add(app_, "ls", "The tree of databases, generations, ranks and tables.",
            "  quire ls /scratch/run7\n  quire ls --json /scratch/run7/kmers | jq .", &ls_.json);
    AddPaths(ls, &ls_.paths);
    runs_[ls] = [this] { return Ls(ls_); };
    CLI::App* stat =
        Add(app_, "stat", "Sizes, entries and amplification of ranks and databases.",
            "  quire stat /scratch/run7\n  quire stat --json /scratch/run7/kmers", &stat_.json);
    AddPaths(stat, &stat_.paths);
    runs_[stat] = [this] { return Stat(stat_); };
    CLI::App* verify =
        Add(app_, "verify", "Reads all of the databases and verifies every checksum.",
            "  quire verify /scratch/run7\n  quire verify --progress /scratch/run7 2>progress",
            &verify_.json);
    AddPaths(verify, &verify_.paths);
    verify->add_flag("--progress", verify_.progress,
                     "show progress on standard error, even if that is no terminal");
    runs_[verify] = [this] { return Verify(verify_); };
  }

  void AddReading() {
    CLI::App* get = Add(app_, "get", "Values of keys, one per line.",
                        "  quire get /scratch/run7/kmers ACGT TTGA\n"
                        "  quire get --hex --format hex /scratch/run7/kmers 0001ff",
                        &get_.json);
    get->add_option("DATABASE", get_.path, "a database, or a repository with one")->required();
    get->add_option("KEY", get_.keys, "keys")->required();
    AddFormat(get, &get_.format);
    AddHexKeys(get, &get_.hex_keys);
    runs_[get] = [this] { return Get(get_); };
    CLI::App* scan = Add(app_, "scan", "Pairs of all ranks by key, one per line.",
                         "  quire scan --from AC --to AD /scratch/run7/kmers\n"
                         "  quire scan --keys --limit 10 /scratch/run7/kmers",
                         &scan_.json);
    scan->add_option("DATABASE", scan_.path, "a database, or a repository with one")->required();
    scan->add_option("--from", scan_.from, "first key");
    scan->add_option("--to", scan_.to, "first key behind the last one");
    AddLimit(scan, &scan_.limit);
    scan->add_flag("--keys", scan_.keys_only, "no values");
    AddFormat(scan, &scan_.format);
    AddHexKeys(scan, &scan_.hex_keys);
    runs_[scan] = [this] { return Scan(scan_); };
  }

  void AddMending() {
    CLI::App* repair =
        Add(app_, "repair",
            "Makes a database that does not open openable again, and says what is lost.\n"
            "What cannot be used is moved to the directory lost of the database.",
            "  quire repair /scratch/run7/kmers          (what would be done)\n"
            "  quire repair --yes /scratch/run7/kmers    (does it)",
            &repair_.json);
    AddPaths(repair, &repair_.paths);
    repair->add_flag("--yes", repair_.yes, "do it; else nothing is changed");
    AddNumber<int>(repair, "--ranks", 1,
                   "where DATABASE is lost: how many ranks wrote the newest generation",
                   &repair_.rank_count);
    repair->add_option("--partitioner", repair_.partitioner,
                       "where DATABASE is lost: the name of the rule by which they owned keys");
    runs_[repair] = [this] { return Repair(repair_); };
  }

  void AddCheckpoint() {
    CLI::App* checkpoint = app_.add_subcommand("checkpoint", "Checkpoints of databases.");
    checkpoint->require_subcommand(1);
    checkpoint->footer(
        "Examples:\n  quire checkpoint list /project/checkpoints\n"
        "  quire checkpoint verify /project/checkpoints/kmers/3\n\n" +
        std::string(kExitCodes));
    CLI::App* list = Add(*checkpoint, "list", "Checkpoints, their state and size.",
                         "  quire checkpoint list /project/checkpoints", &list_.json);
    AddCheckpoints(list, &list_.paths);
    runs_[list] = [this] { return CheckpointList(list_); };
    CLI::App* check = Add(*checkpoint, "verify", "Reads every file and compares its sum.",
                          "  quire checkpoint verify /project/checkpoints/kmers/3", &check_.json);
    AddCheckpoints(check, &check_.paths);
    check->add_flag("--progress", check_.progress, "also where standard error is no terminal");
    runs_[check] = [this] { return CheckpointVerify(check_); };
    CLI::App* drop = Add(*checkpoint, "drop", "Removes checkpoints.",
                         "  quire checkpoint drop --yes /project/checkpoints/kmers/3", &drop_.json);
    AddCheckpoints(drop, &drop_.paths);
    drop->add_flag("--yes", drop_.yes, "do it; else nothing is changed");
    runs_[drop] = [this] { return CheckpointDrop(drop_); };
    CLI::App* copy =
        Add(*checkpoint, "export", "Copies a checkpoint to another directory, verified on the way.",
            "  quire checkpoint export /project/checkpoints/kmers/3 /archive", &export_.json);
    copy->add_option("CHECKPOINT", export_.path, "a checkpoint's directory")->required();
    copy->add_option("DIRECTORY", export_.target, "below which <database>/<number> is made")
        ->required();
    copy->add_flag("--progress", export_.progress, "also where standard error is no terminal");
    runs_[copy] = [this] { return CheckpointExport(export_); };
  }

  void AddDataset() {
    CLI::App* dataset =
        app_.add_subcommand("dataset", "Partitioned datasets of simulations (quire/dataset.h).");
    dataset->require_subcommand(1);
    dataset->footer(
        "Examples:\n  quire dataset list /scratch/run7\n"
        "  quire dataset get --hex /scratch/run7/atoms 2a00000000000000\n\n" +
        std::string(kExitCodes));
    CLI::App* list = Add(*dataset, "list", "Datasets, their format, size and epochs.",
                         "  quire dataset list /scratch/run7", &dataset_list_.json);
    list->add_option("REPOSITORY", dataset_list_.paths, "repositories or datasets")->required();
    runs_[list] = [this] { return DatasetList(dataset_list_); };
    AddDatasetReading(dataset);
    CLI::App* verify = Add(*dataset, "verify", "Reads everything and verifies every checksum.",
                           "  quire dataset verify /scratch/run7/atoms", &dataset_verify_.json);
    verify->add_option("DATASET", dataset_verify_.paths, "directories of datasets")->required();
    verify->add_flag("--progress", dataset_verify_.progress,
                     "also where standard error is no terminal");
    runs_[verify] = [this] { return DatasetVerify(dataset_verify_); };
  }

  void AddDatasetReading(CLI::App* dataset) {
    CLI::App* get = Add(*dataset, "get", "Values of keys: epoch, rank and value, one per line.",
                        "  quire dataset get /scratch/run7/atoms atom17\n"
                        "  quire dataset get --epoch 400 /scratch/run7/atoms atom17",
                        &dataset_get_.json);
    get->add_option("DATASET", dataset_get_.path, "a dataset's directory")->required();
    get->add_option("KEY", dataset_get_.keys, "keys")->required();
    AddNumber<uint64_t>(get, "--epoch", 0, "of this epoch alone; else of all in order",
                        &dataset_get_.epoch);
    get->add_flag("--first", dataset_get_.first, "of an epoch the value that is found first");
    AddFormat(get, &dataset_get_.format);
    AddHexKeys(get, &dataset_get_.hex_keys);
    runs_[get] = [this] { return DatasetGet(dataset_get_); };
    CLI::App* scan =
        Add(*dataset, "scan", "All pairs of an epoch: key, rank and value.",
            "  quire dataset scan --epoch 400 --limit 10 /scratch/run7/atoms", &dataset_scan_.json);
    scan->add_option("DATASET", dataset_scan_.path, "a dataset's directory")->required();
    AddNumber<uint64_t>(scan, "--epoch", 0, "which epoch", &dataset_scan_.epoch)->required();
    AddLimit(scan, &dataset_scan_.limit);
    scan->add_flag("--keys", dataset_scan_.keys_only, "no values");
    AddFormat(scan, &dataset_scan_.format);
    runs_[scan] = [this] { return DatasetScanPairs(dataset_scan_); };
  }

  void AddStream() {
    CLI::App* stream = app_.add_subcommand(
        "stream", "Objects that simulations store version by version (quire/stream.h).");
    stream->require_subcommand(1);
    stream->footer(
        "Examples:\n  quire stream ls /dev/shm/run7 heat\n"
        "  quire stream get --format npy -o zeta.npy /dev/shm/run7 heat 0 zeta\n\n" +
        std::string(kExitCodes));
    CLI::App* ls = Add(*stream, "ls", "Stores of a place, or the objects of a store.",
                       "  quire stream ls /dev/shm/run7\n  quire stream ls /dev/shm/run7 heat",
                       &stream_list_.json);
    AddPlace(ls, &stream_list_.path);
    ls->add_option("STORE", stream_list_.name, "one store: its ranks, objects and versions");
    runs_[ls] = [this] { return StreamList(stream_list_); };
    AddStreamReading(stream);
    CLI::App* stat =
        Add(*stream, "stat", "How many objects, versions and bytes each rank has stored.",
            "  quire stream stat /dev/shm/run7 heat", &stream_stat_.json);
    AddPlace(stat, &stream_stat_.path);
    stat->add_option("STORE", stream_stat_.name, "a store's name")->required();
    AddRank(stat, &stream_stat_.rank);
    runs_[stat] = [this] { return StreamStat(stream_stat_); };
    CLI::App* verify = Add(*stream, "verify", "Reads every version and compares its checksum.",
                           "  quire stream verify /dev/shm/run7 heat", &stream_verify_.json);
    AddPlace(verify, &stream_verify_.path);
    verify->add_option("STORE", stream_verify_.name, "a store's name")->required();
    AddRank(verify, &stream_verify_.rank);
    verify->add_flag("--progress", stream_verify_.progress,
                     "also where standard error is no terminal");
    runs_[verify] = [this] { return StreamVerify(stream_verify_); };
  }

  void AddStreamReading(CLI::App* stream) {
    CLI::App* get = Add(*stream, "get", "The bytes of a version of an object, checked.",
                        "  quire stream get /dev/shm/run7 heat 0 zeta > zeta.raw\n"
                        "  quire stream get --version 12 --format text /dev/shm/run7 heat 0 zeta",
                        &stream_get_.json);
    AddPlace(get, &stream_get_.path);
    get->add_option("STORE", stream_get_.name, "a store's name")->required();
    AddNumber<uint32_t>(get, "RANK", 0, "whose object", &stream_get_.rank)->required();
    get->add_option("KEY", stream_get_.key, "which object")->required();
    CLI::Option* version =
        AddNumber<uint64_t>(get, "--version", 1, "else the newest", &stream_get_.version);
    AddNumber<uint64_t>(get, "--snapshot", 1, "as it was at this snapshot", &stream_get_.snapshot)
        ->excludes(version);
    get->add_option("-o,--output", stream_get_.output, "a file; else standard output");
    AddChoice<StreamFormat>(
        get, "--format", "form of the object (text: numbers, a row on a line; npy: NumPy's file)",
        {{"raw", StreamFormat::kRaw}, {"text", StreamFormat::kText}, {"npy", StreamFormat::kNpy}},
        &stream_get_.format);
    AddHexKeys(get, &stream_get_.hex_keys);
    runs_[get] = [this] { return StreamGet(stream_get_); };
  }

  void AddTending() {
    CLI::App* clean =
        Add(app_, "clean",
            "Removes what dead processes of this user left: shared memory, and below the\n"
            "directories that are named, interrupted checkpoints and locks of what is gone.",
            "  quire clean                       (what would be removed)\n"
            "  quire clean --yes /scratch/checkpoints",
            &clean_.json);
    clean->add_option("DIRECTORY", clean_.paths, "repositories and directories of checkpoints");
    clean->add_option("--shared-memory", clean_.shared_memory, "where shared memory is mounted")
        ->capture_default_str();
    clean->add_flag("--yes", clean_.yes, "do it; else nothing is changed");
    runs_[clean] = [this] { return Clean(clean_); };
    CLI::App* doctor =
        Add(app_, "doctor",
            "Says whether this machine and a directory on it are ready, and what to do. It makes\n"
            "a small directory there, and removes it.",
            "  quire doctor /scratch\n  quire doctor --json . | jq '.checks[] | "
            "select(.level != \"ok\")'",
            &doctor_.json);
    doctor->add_option("DIRECTORY", doctor_.path, "place for a repository")->default_str(".");
    runs_[doctor] = [this] { return Doctor(doctor_); };
  }

  CLI::App& app_;
  CleanOptions clean_;
  DoctorOptions doctor_;
  PathsOptions list_;
  PathsOptions dataset_list_;
  DatasetGetOptions dataset_get_;
  DatasetScanOptions dataset_scan_;
  VerifyOptions dataset_verify_;
  StreamPartOptions stream_list_;
  StreamPartOptions stream_stat_;
  StreamPartOptions stream_verify_;
  StreamGetOptions stream_get_;
  VerifyOptions check_;
  ChangeOptions drop_;
  ExportOptions export_;
  PathsOptions ls_;
  PathsOptions stat_;
  GetOptions get_;
  ScanCommandOptions scan_;
  VerifyOptions verify_;
  RepairCommandOptions repair_;
  std::map<CLI::App*, Run> runs_;
};

// Returns the given command, such as "quire" or "quire stream get", as far as it is known.
std::string GivenCommand(const CLI::App* app) {
  std::string command = "quire";
  for (std::vector<CLI::App*> given = app->get_subcommands(); !given.empty();
       given = given.front()->get_subcommands()) {
    command += " " + given.front()->get_name();
  }
  return command;
}

// Returns the error as one line, made legible because it repeats the command line on a terminal.
std::string UsageText(const CLI::App* app, const CLI::Error& error) {
  return "quire: " + base::Legible(error.what()) + "; " + GivenCommand(app) +
         " --help says what can be given\n";
}

// Returns the command of this name among those of `app`, or nullptr.
const CLI::App* CommandOf(const CLI::App& app, const std::string& name) {
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_name() == name) return one;
  }
  return nullptr;
}

// Returns the words of the command line. The word "help" in a command's place works like --help.
std::vector<std::string> WordsOf(int argc, char** argv, const CLI::App& app) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const CLI::App* within = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool has_commands =
        !within->get_subcommands([](const CLI::App*) { return true; }).empty();
    if (has_commands && words[i] == "help") {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
      words.push_back("--help");
      return words;
    }
    within = CommandOf(*within, words[i]);
    if (within == nullptr) return words;
  }
  return words;
}

// Returns kInvalidArgument if a word is not a command in a place where there must be one.
Status CheckCommands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* within = &app;
  std::string so_far = "quire";
  for (const std::string& word : words) {
    if (word.starts_with('-')) break;
    std::vector<std::string> names;
    for (const CLI::App* one : within->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(one->get_name());
    }
    const CLI::App* const named = CommandOf(*within, word);
    if (names.empty()) break;
    if (named == nullptr) {
      const std::string nearest = runtime::FindNearestName(word, names).name;
      return Status(Code::kInvalidArgument, "there is no command \"" + word + "\" of " + so_far +
                                                "; did you mean \"" + nearest + "\"? " + so_far +
                                                " --help shows all");
    }
    so_far += " " + named->get_name();
    within = named;
  }
  return Status();
}

// Returns the long names of the options of a command, each with its dashes.
std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns kInvalidArgument if a word looks like an option and is none of the command's. CLI11 would
// take the word after a misspelt option for a path first, and blame the path.
Status CheckOptions(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* within = &app;
  std::string command = "quire";
  for (const std::string& word : words) {
    if (word == "--") break;
    if (const CLI::App* const below = CommandOf(*within, word); below != nullptr) {
      command += " " + word;
      within = below;
    }
    if (!word.starts_with("--")) continue;
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = OptionsOf(*within);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Status(Code::kInvalidArgument, command + " has no option " + base::Legible(name) +
                                              "; the nearest is " +
                                              runtime::FindNearestName(name, known).name + "; " +
                                              command + " --help says what can be given");
  }
  return Status();
}

int ParseAndRun(CLI::App& app, const Commands& commands, int argc, char** argv) {
  std::vector<std::string> words = WordsOf(argc, argv, app);
  for (const auto& check : {CheckCommands, CheckOptions}) {
    const Status known = check(app, words);
    if (!known.ok()) return Fail(known);
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them in this order
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFine : kWrongUsage;
  }
  const Status variables = runtime::CheckVariableNames();
  if (!variables.ok()) return Fail(variables);
  return commands.RunParsed();
}

int Main(int argc, char** argv) {
  CLI::App app("Looks at Quire's repositories without a job. Nothing is changed without --yes.");
  app.name("quire");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  app.failure_message(UsageText);
  app.footer(kExamples + std::string(kExitCodes));
  const Commands commands(app);
  try {
    const int exit_code = ParseAndRun(app, commands, argc, argv);
    std::cout.flush();
    if (std::cout) return exit_code;
    std::cerr << "quire: standard output cannot be written\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "quire: out of memory\n";
  }
  return kCannotRead;
}

}  // namespace
}  // namespace quire::tool

int main(int argc, char** argv) {
  quire::io::OpenStandardStreams();
  return quire::tool::Main(argc, argv);
}
