// The calls of NVStream's interface while one allocation, descriptor or mapping fails, or all
// allocations from one on: the call does its work or returns that there was no memory. Then the
// same call works, and no version that was put is lost.
#include <nvs/nvs.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tests/api/shortages.h"

namespace {

constexpr int kBytes = 64;
int failures = 0;
int refused = 0;  // calls that said that there was no memory

void Expect(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s: %s\n", what, nvs_error_message());
}

// `call()` returns a code; `restore()` takes back what a call that was done has changed.
template <typename Call, typename Restore>
void SweepOf(const quire::test::Shortage& shortage, const char* name, const Call& call,
             const Restore& restore) {
  for (int64_t n = 0;; ++n) {
    shortage.refuse(n);
    const int code = call();
    const bool failed = shortage.was_refused();
    Expect(code == NVS_OK || (failed && code == NVS_OUT_OF_MEMORY), name);
    if (code != NVS_OK) {
      ++refused;
      Expect(call() == NVS_OK, name);
    }
    restore();
    if (!failed) break;
  }
}

template <typename Call, typename Restore>
void Sweep(const char* name, const Call& call, const Restore& restore) {
  for (const quire::test::Shortage& shortage : quire::test::kShortages) {
    SweepOf(shortage, name, call, restore);
  }
  SweepOf(quire::test::kLastingShortage, name, call, restore);
}

int CodeOf(const void* given) {
  return given != nullptr ? NVS_OK : nvs_error();
}

int GetAndRelease(const char* store) {
  const void* const got = store == nullptr ? nvs_get("x", 1) : nvs_get_from(store, "x", 1);
  if (got == nullptr) return nvs_error();
  static const char expected[kBytes] = {1};
  Expect(nvs_size(got) == kBytes && std::memcmp(got, expected, kBytes) == 0, "the bytes");
  return nvs_release(got);
}

void SweepSession() {
  const auto end = [] { Expect(nvs_finalize() == NVS_OK, "nvs_finalize"); };
  const auto begin = [] { Expect(nvs_init("starved") == NVS_OK, "nvs_init"); };
  Sweep(
      "nvs_init", [] { return nvs_init("starved"); }, end);
  begin();
  Sweep(
      "nvs_finalize", [] { return nvs_finalize(); }, begin);
  end();
}

void SweepWriting() {
  const auto nothing = [] {};
  Sweep(
      "nvs_create_obj", [] { return CodeOf(nvs_create_obj("y", kBytes)); },
      [] { Expect(nvs_free_obj("y") == NVS_OK, "nvs_free_obj"); });
  const auto create = [] {
    Expect(nvs_create_obj("y", kBytes) != nullptr, "nvs_create_obj");
  };
  create();
  Sweep(
      "nvs_free_obj", [] { return nvs_free_obj("y"); }, create);
  Sweep(
      "nvs_put", [] { return nvs_put("y"); }, nothing);
  Sweep(
      "nvs_snapshot", [] { return nvs_snapshot(); }, nothing);
  Sweep(
      "nvs_sync", [] { return nvs_sync(); }, nothing);
}

// A new session has no reader yet.
void SweepReading() {
  const auto begin_again = [] {
    Expect(nvs_finalize() == NVS_OK && nvs_init("starved") == NVS_OK, "a new session");
  };
  Sweep(
      "nvs_get", [] { return GetAndRelease(nullptr); }, begin_again);
  Sweep(
      "nvs_get_from", [] { return GetAndRelease("starved"); }, begin_again);
  Sweep(
      "nvs_wait", [] { return nvs_wait("x", 1, 0); }, begin_again);
}

}  // namespace

int main() {
  SweepSession();
  Expect(nvs_init("starved") == NVS_OK, "nvs_init");
  char* const object = static_cast<char*>(nvs_create_obj("x", kBytes));
  Expect(object != nullptr, "nvs_create_obj");
  if (object == nullptr) return 1;
  object[0] = 1;
  Expect(nvs_put("x") == NVS_OK, "nvs_put");
  SweepReading();
  SweepWriting();
  Expect(GetAndRelease(nullptr) == NVS_OK, "nvs_get");
  Expect(nvs_finalize() == NVS_OK, "nvs_finalize");
  Expect(refused > 50, "a call that takes memory");
  std::printf("%d calls without memory, %d failures\n", refused, failures);
  return failures == 0 ? 0 : 1;
}
