// The programs that stream_kill_test.py kills. stream_objects.h describes what they write and
// expect.
//
//   stream_program write PLACE DELTAS COMPRESSION [COUNT]
//   stream_program read PLACE SEED
//   stream_program check PLACE TOLD KEPT
//
// write commits until it is killed, or up to commit COUNT, and then finishes. It prints
// "open <number>" with the newest commit that it found, "commit <number>" after each call has
// returned, and "keep <number>" for a commit that is kept. The log is so small that it wraps every
// few commits. read waits for versions, compares them, and holds views of them for a while, until
// it is killed. check reads all versions: no reported one may be missing, and no other one present.
// Exit status: 3 if something is lost, partial or wrong; 4 if a call failed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "quire/stream.h"
#include "tests/kill/stream_objects.h"

namespace {

using quire::Code;
using quire::Result;
using quire::Status;
using quire::StreamReader;
using quire::test::Content;
using quire::test::kKeep;
using quire::test::kKeptEvery;
using quire::test::kObjectBytes;
using quire::test::kObjects;
using quire::test::ObjectKey;

constexpr const char* kStore = "killed";
constexpr int kExitWrong = 3;
constexpr int kExitFailed = 4;

// In one write, so that the line is printed whole or not at all.
void Say(const std::string& what, uint64_t number) {
  const std::string line = what + " " + std::to_string(number) + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::abort();
  }
}

Status Wrong(const std::string& what) {
  return Status(Code::kCorruption, what);
}

std::string Named(size_t object, uint64_t version, uint64_t snapshot) {
  return "version " + std::to_string(version) + " (commit " + std::to_string(snapshot) + ") of " +
         ObjectKey(object);
}

quire::StreamOptions OptionsOf(const std::string& deltas, const std::string& compression) {
  quire::StreamOptions options;
  options.log_bytes = 12 << 20;
  options.keep_versions = kKeep;
  options.full_every = 4;
  options.audit_every = 5;
  options.wait_ms = 20'000;  // for readers that hold views
  if (deltas == "auto") options.deltas = quire::StreamDeltas::kAuto;
  if (deltas == "hash") options.deltas = quire::StreamDeltas::kHash;
  if (deltas == "protect") options.deltas = quire::StreamDeltas::kProtect;
  if (deltas == "watch") options.deltas = quire::StreamDeltas::kWatch;
  if (compression == "lz4") options.compression = quire::Compression::kLz4;
  return options;
}

class Writer {
 public:
  Status Run(const std::string& place, const quire::StreamOptions& options, uint64_t count) {
    QUIRE_ASSIGN_OR_RETURN(writer_, quire::StreamWriter::Open(place, kStore, 0, options));
    for (size_t i = 0; i < kObjects; ++i) {
      QUIRE_ASSIGN_OR_RETURN(memory_[i], writer_->Create(ObjectKey(i), kObjectBytes[i]));
    }
    uint64_t number = writer_->LastSnapshot();
    if (number > 0) QUIRE_RETURN_IF_ERROR(GoBack(number));
    Say("open", number);
    while (number < count) {
      QUIRE_RETURN_IF_ERROR(Commit(++number));
      Say("commit", number);
      if (number % kKeptEvery == 0) QUIRE_RETURN_IF_ERROR(Keep(number));
    }
    return writer_->Finish();
  }

 private:
  Status GoBack(uint64_t number) {
    QUIRE_RETURN_IF_ERROR(writer_->Restore(0));
    for (size_t i = 0; i < kObjects; ++i) {
      const uint64_t version = versions_.At(number, i);
      if (std::string_view(memory_[i], kObjectBytes[i]) != Content::Of(i, version)) {
        return Wrong("restored: " + Named(i, version, number) + " is another");
      }
    }
    // An earlier program may have been killed before it kept this snapshot, or before it released
    // the one before.
    kept_ = number / kKeptEvery * kKeptEvery;
    if (number % kKeptEvery == 0) {
      QUIRE_RETURN_IF_ERROR(writer_->Keep(number));
      Say("keep", number);
    }
    return kept_ > kKeptEvery ? LetGo(kept_ - kKeptEvery) : Status();
  }

  Status Commit(uint64_t number) {
    const std::vector<size_t> objects = quire::test::ObjectsOf(number);
    std::vector<std::string> keys;
    for (const size_t i : objects) {
      Content(i, memory_[i]).Advance(versions_.At(number, i));
      keys.push_back(ObjectKey(i));
    }
    uint64_t made = 0;
    if (objects.size() == 1) {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t version, writer_->Put(keys[0]));
      if (version != versions_.At(number, objects[0])) {
        return Wrong("put: version " + std::to_string(version) + ", not " +
                     Named(objects[0], versions_.At(number, objects[0]), number));
      }
      made = writer_->LastSnapshot();
    } else if (objects.size() == kObjects) {
      QUIRE_ASSIGN_OR_RETURN(made, writer_->Snapshot());
    } else {
      QUIRE_ASSIGN_OR_RETURN(
          made, writer_->Snapshot(std::vector<quire::Slice>(keys.begin(), keys.end())));
    }
    return made == number ? Status()
                          : Wrong("commit " + std::to_string(number) + " has the number " +
                                  std::to_string(made));
  }

  Status Keep(uint64_t number) {
    QUIRE_RETURN_IF_ERROR(writer_->Keep(number));
    Say("keep", number);
    if (kept_ > 0) QUIRE_RETURN_IF_ERROR(LetGo(kept_));
    kept_ = number;
    return Status();
  }

  Status LetGo(uint64_t number) {
    const Status released = writer_->Release(number);
    return released.code() == Code::kNotFound ? Status() : released;
  }

  std::unique_ptr<quire::StreamWriter> writer_;
  quire::test::VersionTable versions_;
  char* memory_[kObjects] = {};
  uint64_t kept_ = 0;
};

class Reader {
 public:
  Reader(const std::string& place, uint64_t seed) : place_(place), random_(seed) {}

  // Reads until something is wrong, or for ever.
  Status Run() {
    while (true) {
      const Status status = ReadWhileItIsThere();
      const Code code = status.code();
      if (code != Code::kNotFound && code != Code::kPeerFailed && code != Code::kTimedOut) {
        return status;
      }
      // The writer was killed, and another one will come.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  Status ReadWhileItIsThere() {
    QUIRE_ASSIGN_OR_RETURN(const auto reader, StreamReader::Open(place_, kStore, 0));
    uint64_t number = 0;
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(number, reader->Wait(number, 1000));
      const Status read = ReadOne(*reader, number);
      if (!read.ok() && read.code() != Code::kNotFound) return read;  // kNotFound: collected
      if (read.ok()) Say("read", number);
    }
  }

  // Reads all objects as they were at one commit, and holds them together for a while.
  Status ReadOne(StreamReader& reader, uint64_t number) {
    std::vector<std::unique_ptr<quire::StreamView>> views;
    for (size_t i = 0; i < kObjects; ++i) {
      QUIRE_ASSIGN_OR_RETURN(auto view, reader.ViewAt(ObjectKey(i), number));
      views.push_back(std::move(view));
    }
    QUIRE_RETURN_IF_ERROR(Compare(views, number));
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 30));
    return Compare(views, number);
  }

  Status Compare(const std::vector<std::unique_ptr<quire::StreamView>>& views, uint64_t number) {
    for (size_t i = 0; i < kObjects; ++i) {
      const uint64_t version = versions_.At(number, i);
      if (views[i]->version().version != version || views[i]->bytes() != Content::Of(i, version)) {
        return Wrong("viewed: " + Named(i, views[i]->version().version, number) +
                     " is another than version " + std::to_string(version));
      }
    }
    return Status();
  }

  std::string place_;
  std::mt19937_64 random_;
  quire::test::VersionTable versions_;
};

class Checker {
 public:
  // `told`: the newest commit that the writer reported; one more may be present.
  Status Run(const std::string& place, uint64_t told, uint64_t kept) {
    Result<std::unique_ptr<StreamReader>> reader = StreamReader::Open(place, kStore, 0);
    if (!reader.ok() && reader.status().code() == Code::kNotFound && told == 0) {
      Say("checked", 0);
      return Status();
    }
    if (!reader.ok()) return reader.status();
    QUIRE_ASSIGN_OR_RETURN(last_, (*reader)->LastSnapshot());
    if (last_ < told || last_ > told + 1) {
      return Wrong("the last commit is " + std::to_string(last_) + ", told was " +
                   std::to_string(told));
    }
    if (last_ > 0) {
      for (size_t i = 0; i < kObjects; ++i) QUIRE_RETURN_IF_ERROR(CheckObject(**reader, i));
      QUIRE_RETURN_IF_ERROR(CheckAt(**reader, last_));
    }
    if (kept > 0) QUIRE_RETURN_IF_ERROR(CheckAt(**reader, kept));
    Say("checked", checked_);
    return Status();
  }

 private:
  Status CheckObject(StreamReader& reader, size_t object) {
    const uint64_t newest = versions_.At(last_, object);
    const auto versions = reader.Versions(ObjectKey(object));
    if (!versions.ok()) return versions.status().WithContext("versions of " + ObjectKey(object));
    uint64_t expected = newest;
    for (const quire::StreamVersion& version : *versions) {
      const std::string name = Named(object, version.version, version.snapshot);
      // No version is missing among those that the policy keeps.
      if (version.version != expected && expected + kKeep > newest) {
        return Wrong(name + " stands where " + std::to_string(expected) + " should");
      }
      if (version.version > expected || version.bytes != kObjectBytes[object] ||
          versions_.At(version.snapshot, object) != version.version ||
          !quire::test::IsIn(version.snapshot, object)) {
        return Wrong(name + " was never made");
      }
      std::string bytes;
      const Status got = reader.Get(ObjectKey(object), version.version, &bytes);
      if (!got.ok()) return got.WithContext(name);
      if (bytes != Content::Of(object, version.version)) return Wrong(name + " has other bytes");
      expected = version.version - 1;
      ++checked_;
    }
    if (versions->size() < std::min<uint64_t>(newest, kKeep)) {
      return Wrong(ObjectKey(object) + " has but " + std::to_string(versions->size()) +
                   " versions, the newest of which should be " + std::to_string(newest));
    }
    return Status();
  }

  // Checks all objects as they were at the commit.
  Status CheckAt(StreamReader& reader, uint64_t number) {
    for (size_t i = 0; i < kObjects; ++i) {
      const std::string name = Named(i, versions_.At(number, i), number);
      const auto view = reader.ViewAt(ObjectKey(i), number);
      if (!view.ok()) return view.status().WithContext(name + ", last " + std::to_string(last_));
      QUIRE_RETURN_IF_ERROR((*view)->Verify().WithContext(name));
      if ((*view)->version().version != versions_.At(number, i) ||
          (*view)->bytes() != Content::Of(i, versions_.At(number, i))) {
        return Wrong("at a commit: " + name + " is another");
      }
      ++checked_;
    }
    return Status();
  }

  quire::test::VersionTable versions_;
  uint64_t last_ = 0;
  uint64_t checked_ = 0;
};

Status Run(const std::vector<std::string>& arguments) {
  const std::string& what = arguments[0];
  const auto number = [&](size_t i) { return std::strtoull(arguments[i].c_str(), nullptr, 10); };
  if (what == "write" && arguments.size() >= 4) {
    return Writer().Run(arguments[1], OptionsOf(arguments[2], arguments[3]),
                        arguments.size() > 4 ? number(4) : UINT64_MAX);
  }
  if (what == "read" && arguments.size() == 3) return Reader(arguments[1], number(2)).Run();
  if (what == "check" && arguments.size() == 4) {
    return Checker().Run(arguments[1], number(2), number(3));
  }
  return Status(Code::kInvalidArgument, "usage: see the top of stream_program.cpp");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const Status status = arguments.empty() ? Status(Code::kInvalidArgument) : Run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "stream_program: %s\n", status.ToString().c_str());
  return status.code() == Code::kCorruption ? kExitWrong : kExitFailed;
}
