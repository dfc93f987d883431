// A limit of the process (setrlimit) that is lower as long as the object lives.
//
// Threads: an object belongs to one thread; the limit is the process's.
#ifndef QUIRE_TESTS_SUPPORT_RESOURCE_LIMIT_H_
#define QUIRE_TESTS_SUPPORT_RESOURCE_LIMIT_H_

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace quire::test {

class ResourceLimit {
 public:
  ResourceLimit(int resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(Get(resource, &before_), 0);
    const struct rlimit lower = {value, before_.rlim_max};
    EXPECT_EQ(Set(resource, &lower), 0);
  }
  ~ResourceLimit() { EXPECT_EQ(Set(resource_, &before_), 0); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  // The type of the first argument differs between libraries and languages.
  static int Get(int resource, struct rlimit* limit) {
    return ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), limit);
  }
  static int Set(int resource, const struct rlimit* limit) {
    return ::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), limit);
  }

  const int resource_;
  struct rlimit before_ = {};
};

/// Under any limit files are not mapped to be read (io/files/read_map.h). Under this one programs
/// still get what they ask for, ThreadSanitizer's shadow memory included.
constexpr rlim_t kUnmappedAddressSpace = rlim_t{1} << 62;

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_RESOURCE_LIMIT_H_
