// Stores into all the room that is set aside for a log segment, on a device that is full and beside
// a program that reads the file.
//
//   room_program PLACE
//
// PLACE is a directory of a small file system of its own. If a file is read ahead, the kernel has
// pieces of many pages in memory, also beyond the room. A store to a page of a piece that lies
// across the end of the room must not raise SIGBUS. Exit status: 4 if a call failed for another
// reason than lack of room.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/room.h"
#include "log/segment.h"

namespace {

using quire::Code;
using quire::Status;

constexpr int kExitFailed = 4;
constexpr uint64_t kCapacity = 8 << 20;
constexpr uint64_t kStoreEvery = 512;
constexpr size_t kReadBytes = 64 << 10;
constexpr off_t kSparePages = 40;
constexpr uint64_t kPageBytes = 4096;

void Require(bool right, const std::string& what) {
  if (right) return;
  std::printf("%s\n", what.c_str());
  std::exit(kExitFailed);
}

int OpenFile(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags, 0600);
  Require(fd >= 0, "cannot open " + path);
  return fd;
}

// Reads a file as a reader, or a program that copies it, does.
void ReadAll(const std::string& path) {
  const int fd = OpenFile(path, O_RDONLY);
  static_cast<void>(::fsync(fd));
  static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
  static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
  std::vector<char> bytes(kReadBytes);
  while (::read(fd, bytes.data(), bytes.size()) > 0) {
  }
  ::close(fd);
}

// Takes all free room. Returns the file.
int FillDevice(const std::string& place) {
  const int fd = OpenFile(place + "/filling", O_RDWR | O_CREAT);
  off_t end = 0;
  for (off_t piece = 64 << 20; piece >= 1024;) {
    if (::fallocate(fd, 0, end, piece) == 0) {
      end += piece;
    } else {
      Require(errno == ENOSPC, "cannot fill the device");
      piece /= 2;
    }
  }
  Require(end > kSparePages * static_cast<off_t>(kPageBytes), "the device is too small");
  return fd;
}

class Room {
 public:
  explicit Room(const std::string& path) : path_(path) {
    quire::log::SegmentHeader header;
    header.generation = 1;
    header.capacity = kCapacity;
    auto made = quire::log::Segment::Create(quire::io::PosixFileSystem(), path, header,
                                            quire::log::Segment::Origin::kNew);
    Require(made.ok(), made.status().ToString());
    segment_ = std::move(*made);
  }
  uint64_t size() const { return segment_->map().room(); }
  // Returns false if the device has no room.
  bool Grow(uint64_t bytes) {
    const uint64_t end = std::min(size() + bytes, kCapacity);
    const Status grown = quire::log::GrowRoom(segment_->map(), end, kCapacity);
    Require(grown.ok() || grown.code() == Code::kNoSpace, grown.ToString());
    return grown.ok() && end < kCapacity;
  }
  void Store() {
    for (uint64_t at = quire::log::kSegmentHeaderBytes; at < size(); at += kStoreEvery) {
      segment_->data()[at] = 'x';
    }
    segment_->data()[size() - 1] = 'x';
  }
  void Sync() {
    const Status synced = segment_->map().Sync(0, size());
    Require(synced.ok(), synced.ToString());
  }
  void Read() const { ReadAll(path_); }

 private:
  std::string path_;
  std::unique_ptr<quire::log::Segment> segment_;
};

// If `read_first`, the part that is set aside last is in memory already, in large pieces.
void Run(const std::string& place, uint64_t odd_bytes, bool read_first) {
  const std::string path = place + "/segment";
  Room room(path);
  if (read_first) room.Read();
  Require(room.Grow((1 << 20) + odd_bytes), "there is no room to begin with");
  room.Read();
  const int filling = FillDevice(place);
  room.Store();
  // Frees some pages, and not always a whole number of the pieces in memory.
  Require(::ftruncate(filling, ::lseek(filling, 0, SEEK_END) -
                                   kSparePages * static_cast<off_t>(kPageBytes)) == 0,
          "cannot give room back");
  int grown = 0;
  for (uint64_t bytes = odd_bytes; room.Grow(bytes); bytes += 1000) {
    ++grown;
    room.Read();
    room.Store();
  }
  room.Store();
  room.Sync();
  std::printf("%llu odd bytes: grown %d times, %llu bytes\n",
              static_cast<unsigned long long>(odd_bytes), grown,
              static_cast<unsigned long long>(room.size()));
  ::close(filling);
  Require(::unlink(path.c_str()) == 0 && ::unlink((place + "/filling").c_str()) == 0,
          "cannot remove the files");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return kExitFailed;
  for (const uint64_t odd_bytes : {1024, 4096, 12'000, 53'248, 60'000}) {
    for (const bool read_first : {false, true}) Run(argv[1], odd_bytes, read_first);
  }
  return 0;
}
