// A model of a writer and its readers beside each other, in the steps of
// docs/decisions/0014-reading-beside-a-writer.md, each atomic. Every interleaving is run. Other
// orders of the steps must fail: this shows why each order is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace quire::stream::beside_model_test {
namespace {

// Runs all interleavings of some programs over one state. Step(state, program) takes the next step
// of a program, and returns false if none is left.
template <typename State>
class Interleavings {
 public:
  using Step = std::function<bool(State*, size_t program)>;
  Interleavings(size_t programs, Step step) : programs_(programs), step_(std::move(step)) {}

  void Run(const State& begin) { Visit(begin); }
  size_t states() const { return seen_.size(); }
  // Returns the faults that were found in states.
  const std::set<std::string>& faults() const { return faults_; }

 private:
  void Visit(const State& state) {
    if (!seen_.insert(state.Bytes()).second) return;
    bool ended = true;
    for (size_t program = 0; program < programs_; ++program) {
      State next = state;
      if (!step_(&next, program)) continue;
      ended = false;
      if (next.fault.empty()) {
        Visit(next);
      } else {
        faults_.insert(next.fault);
      }
    }
    if (ended && !state.MayEnd().empty()) faults_.insert(state.MayEnd());
  }

  const size_t programs_;
  const Step step_;
  std::set<std::string> seen_;
  std::set<std::string> faults_;
};

// One object. Snapshot n contains its version n. Snapshot 1 may be kept; else only the newest
// stays.
constexpr int kPuts = 4;
constexpr int kGets = 2;
constexpr uint8_t kNothing = 255;

struct Ref {
  uint8_t version;
  uint8_t at;  // position
};

// The order of the steps, and the choice among them.
struct Order {
  bool kept = true;
  bool snapshot_of_index_last = true;  // else it is loaded before the index is read
  bool head_before_pins = true;        // else the collector reads the pins and then publishes
  bool pin_before_head = true;         // else the reader reads the head and then pins
  bool by_snapshot = false;            // GetAt(the newest snapshot); else Get(newest)
};

struct Beside {
  // Shared: the index (oldest first), the gate.
  std::vector<Ref> index = {{1, 1}};
  uint8_t published = 1;
  uint8_t gate_head = 1;
  uint8_t pin = kNothing;
  uint8_t heap_head = 1;  // what lies below it may be overwritten
  // The writer's state.
  uint8_t writer_step = 0;
  uint8_t puts = 0;
  uint8_t tail = 2;
  uint8_t to = 0;
  struct Reader {
    uint8_t step = 0;
    uint8_t gets = 0;
    uint8_t asked = 0;     // the gate's snapshot when the get began
    uint8_t snapshot = 0;  // the snapshot for which the index is read
    std::vector<Ref> refs;
    Ref found = {0, 0};
    uint8_t newest = 0;  // the newest version that it has got
  };
  Reader reader;
  std::string fault;

  std::string Bytes() const {
    std::string bytes;
    const auto add = [&](std::initializer_list<uint8_t> values) {
      for (const uint8_t value : values) bytes.push_back(static_cast<char>(value));
    };
    const auto add_refs = [&](const std::vector<Ref>& refs) {
      add({static_cast<uint8_t>(refs.size())});
      for (const Ref& ref : refs) add({ref.version, ref.at});
    };
    add_refs(index);
    add({published, gate_head, pin, heap_head, writer_step, puts, tail, to});
    add({reader.step, reader.gets, reader.asked, reader.snapshot, reader.found.version,
         reader.found.at, reader.newest});
    add_refs(reader.refs);
    return bytes;
  }
  std::string MayEnd() const { return ""; }
};

class Steps {
 public:
  explicit Steps(const Order& order) : order_(order) {}

  bool operator()(Beside* state, size_t program) const {
    return program == 0 ? Write(state) : Read(state);
  }

 private:
  enum WriterStep : uint8_t {
    kAdd,
    kPublish,
    kRelocate,
    kTellHead,
    kLookAtPins,
    kDrop,
    kLetGo,
  };
  enum ReaderStep : uint8_t { kBegin, kFirst, kSecond, kPin, kLook, kCopy };

  bool Write(Beside* state) const {
    if (state->puts == kPuts) return false;
    switch (state->writer_step++) {
      case kAdd:
        state->index.push_back({static_cast<uint8_t>(state->published + 1), state->tail++});
        break;
      case kPublish:
        ++state->published;
        break;
      case kRelocate:
        Relocate(state);
        break;
      case kTellHead:
        if (order_.head_before_pins) state->gate_head = state->to;
        if (!order_.head_before_pins) LookAtPins(state);
        break;
      case kLookAtPins:
        if (order_.head_before_pins) LookAtPins(state);
        state->gate_head = state->to;
        break;
      case kDrop:
        std::erase_if(state->index, [&](const Ref& ref) { return ref.at < state->to; });
        break;
      case kLetGo:
        state->heap_head = state->to;
        state->writer_step = kAdd;
        ++state->puts;
        break;
    }
    return true;
  }

  // Appends the kept version again; after that nothing before the newest version is needed.
  void Relocate(Beside* state) const {
    state->to = state->index.back().at;
    Ref& oldest = state->index.front();
    const bool needed = order_.kept && oldest.version == 1;
    const bool pinned = state->pin <= oldest.at;
    if (needed && !pinned) oldest.at = state->tail++;
    if (needed && pinned) state->to = oldest.at;
  }

  static void LookAtPins(Beside* state) {
    state->to = std::max(state->heap_head, std::min(state->to, state->pin));
  }

  bool Read(Beside* state) const {
    Beside::Reader& reader = state->reader;
    if (reader.gets == kGets) return false;
    switch (reader.step++) {
      case kBegin:
        reader.asked = state->published;
        break;
      case kFirst:
        if (order_.snapshot_of_index_last) reader.refs = state->index;
        if (!order_.snapshot_of_index_last) reader.snapshot = state->published;
        break;
      case kSecond:
        if (order_.snapshot_of_index_last) reader.snapshot = state->published;
        if (!order_.snapshot_of_index_last) reader.refs = state->index;
        Choose(state, &reader);
        break;
      case kPin:
      case kLook:
        // Pins the place, or reads the head, in one order or the other.
        if ((reader.step - 1 == kPin) == order_.pin_before_head) {
          state->pin = reader.found.at;
        } else if (state->gate_head > reader.found.at) {
          state->pin = kNothing;
          --reader.gets;  // it came too late, and retries
          EndGet(&reader);
        }
        break;
      case kCopy:
        Copy(state, &reader);
        state->pin = kNothing;
        EndGet(&reader);
        break;
    }
    return true;
  }

  // Clears what the reader does not need any more, so that it makes no further states.
  static void EndGet(Beside::Reader* reader) {
    *reader = {kBegin, ++reader->gets, 0, 0, {}, {0, 0}, reader->newest};
  }

  void Choose(Beside* state, Beside::Reader* reader) const {
    reader->found = {0, 0};
    const uint8_t most = order_.by_snapshot ? reader->asked : reader->snapshot;
    for (const Ref& ref : reader->refs) {
      if (ref.version <= most && ref.version >= reader->found.version) reader->found = ref;
    }
    reader->refs.clear();
    if (reader->found.version == 0) {
      if (!order_.by_snapshot) state->fault = "what is always there was not found";
      EndGet(reader);  // by its number a version may have been collected
    }
  }

  void Copy(Beside* state, Beside::Reader* reader) const {
    const uint8_t got = reader->found.version;
    if (reader->found.at < state->heap_head) state->fault = "its bytes may be overwritten";
    if (got < reader->newest && !order_.by_snapshot) state->fault = "older than the get before";
    if (got < reader->asked && !order_.by_snapshot) state->fault = "older than it was at the call";
    if (got > state->published) state->fault = "it is not committed yet";
    reader->newest = got;
  }

  const Order order_;
};

std::set<std::string> FaultsOf(const Order& order) {
  Interleavings<Beside> all(2, Steps(order));
  all.Run(Beside());
  EXPECT_GT(all.states(), 500u) << all.states();
  return all.faults();
}

// GetAt returns exactly the requested snapshot, and the index knows of gaps between snapshots. Here
// it requests the newest snapshot at the call, which is present or has been collected.
TEST(BesideModel, InEveryInterleavingAGetIsRight) {
  for (const bool kept : {false, true}) {
    for (const bool by_snapshot : {false, true}) {
      Order order;
      order.kept = kept;
      order.by_snapshot = by_snapshot;
      EXPECT_EQ(FaultsOf(order), std::set<std::string>{}) << kept << by_snapshot;
    }
  }
}

TEST(BesideModel, ASnapshotThatIsLoadedBeforeTheIndexGivesOlderVersions) {
  Order order;
  order.snapshot_of_index_last = false;
  EXPECT_TRUE(FaultsOf(order).contains("older than it was at the call"));
  order.kept = false;
  EXPECT_TRUE(FaultsOf(order).contains("what is always there was not found"));
}

TEST(BesideModel, EachSidePublishesBeforeItLooks) {
  Order order;
  order.head_before_pins = false;
  EXPECT_TRUE(FaultsOf(order).contains("its bytes may be overwritten"));
  order = Order();
  order.pin_before_head = false;
  EXPECT_TRUE(FaultsOf(order).contains("its bytes may be overwritten"));
}

// Gate::Wake and Gate::Wait: one program publishes twice, and two wait for the second snapshot.
struct Bell {
  uint8_t snapshot = 0;
  uint8_t wake = 0;
  bool waiting = false;
  uint8_t publisher_step = 0;
  uint8_t published = 0;
  struct Waiter {
    uint8_t step = 0;
    uint8_t seen = 0;
    bool news = false;
    bool asleep = false;
    bool done = false;
  };
  std::array<Waiter, 2> waiters;
  std::string fault;

  std::string Bytes() const {
    std::string bytes;
    const auto add = [&](int value) { bytes.push_back(static_cast<char>(value)); };
    for (const int value : {int{snapshot}, int{wake}, int{waiting}, int{publisher_step}}) {
      add(value);
    }
    add(published);
    for (const Waiter& waiter : waiters) {
      for (const int value : {int{waiter.step}, int{waiter.seen}, int{waiter.news}}) add(value);
      for (const bool value : {waiter.asleep, waiter.done}) add(value ? 1 : 0);
    }
    return bytes;
  }
  std::string MayEnd() const {
    const bool sleeps = std::any_of(waiters.begin(), waiters.end(),
                                    [](const Waiter& waiter) { return waiter.asleep; });
    return sleeps ? "one sleeps though there is news" : "";
  }
};

constexpr uint8_t kPublished = 2;

// When a waiter checks for news. A processor may move this check to before the store that announces
// the waiter, but not to before the load of the count: the program's order has it behind both.
enum class Looks { kBeforeItCounts, kBeforeItSaysSo, kLast };

bool StepOfPublisher(Bell* bell) {
  if (bell->published == kPublished) return false;
  switch (bell->publisher_step++) {
    case 0:
      ++bell->snapshot;
      break;
    case 1:
      ++bell->wake;
      break;
    case 2:
      bell->publisher_step = bell->waiting ? 3 : 5;
      bell->waiting = false;
      break;
    case 3:
      ++bell->wake;
      break;
    case 4:
      for (Bell::Waiter& waiter : bell->waiters) waiter.asleep = false;
      break;
    default:
      break;
  }
  if (bell->publisher_step >= 5) {
    bell->publisher_step = 0;
    ++bell->published;
  }
  return true;
}

bool StepOfWaiter(Bell* bell, Bell::Waiter* waiter, Looks looks) {
  if (waiter->asleep || waiter->done) return false;
  const auto look = [&] { waiter->news = bell->snapshot >= kPublished; };
  switch (waiter->step++) {
    case 0:
      if (looks == Looks::kBeforeItCounts) look();
      break;
    case 1:
      waiter->seen = bell->wake;
      break;
    case 2:
      if (looks == Looks::kBeforeItSaysSo) look();
      break;
    case 3:
      bell->waiting = true;
      break;
    case 4:
      if (looks == Looks::kLast) look();
      waiter->done = waiter->news;
      break;
    default:
      // The system compares and sleeps in one step.
      waiter->asleep = bell->wake == waiter->seen;
      waiter->step = 0;
      break;
  }
  return true;
}

std::set<std::string> FaultsOf(Looks looks) {
  Interleavings<Bell> all(3, [&](Bell* bell, size_t program) {
    if (program == 0) return StepOfPublisher(bell);
    return StepOfWaiter(bell, &bell->waiters[program - 1], looks);
  });
  all.Run(Bell());
  EXPECT_GT(all.states(), 100u);
  return all.faults();
}

// So the load of the snapshot need not be ordered behind the store that announces the waiter: what
// was published before the count was loaded is seen, and what is published later changes the count.
TEST(BesideModel, NoNewsIsSleptThroughInWhateverOrderItIsLookedForAfterTheCount) {
  EXPECT_EQ(FaultsOf(Looks::kLast), std::set<std::string>{});
  EXPECT_EQ(FaultsOf(Looks::kBeforeItSaysSo), std::set<std::string>{});
  EXPECT_FALSE(FaultsOf(Looks::kBeforeItCounts).empty());
}

}  // namespace
}  // namespace quire::stream::beside_model_test
