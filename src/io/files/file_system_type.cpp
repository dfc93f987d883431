#include "io/files/file_system_type.h"

#include <sys/statfs.h>

#include <cstdint>
#include <cstdio>

namespace quire::io {
namespace {

struct KnownType {
  uint64_t number;
  const char* name;
  bool shared;
  bool writes_elsewhere = false;  // see AlwaysWritesElsewhere
};
// From statfs(2) and the file systems' own sources.
constexpr KnownType kKnownTypes[] = {
    {0xEF53, "ext4", false},      {0x58465342, "xfs", false},     {0x9123683E, "btrfs", false},
    {0x01021994, "tmpfs", false}, {0x794C7630, "overlay", false}, {0x2FC12FC1, "zfs", false, true},
    {0xF2F52010, "f2fs", false},  {0x6969, "nfs", true},          {0x0BD00BD0, "lustre", true},
    {0x47504653, "gpfs", true},   {0x19830326, "beegfs", true},   {0x00C36400, "ceph", true},
    {0xFF534D42, "cifs", true},   {0xFE534D42, "smb2", true},     {0x65735546, "fuse", true},
    {0x01021997, "9p", true},     {0xAAD7AAEA, "panfs", true},    {0x5346414F, "afs", true},
    {0xCA451A4E, "bcachefs", false, true},
};

const KnownType* Find(uint32_t number) {
  for (const KnownType& type : kKnownTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

std::string Hexadecimal(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

std::string FileSystemType(const std::string& path) {
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return "unknown";
  const auto number = static_cast<uint32_t>(info.f_type);
  const KnownType* const type = Find(number);
  return type != nullptr ? type->name : Hexadecimal(number);
}

bool IsSharedType(const std::string& type) {
  for (const KnownType& known : kKnownTypes) {
    if (type == known.name) return known.shared;
  }
  return false;
}

const char* AlwaysWritesElsewhere(uint32_t number) {
  const KnownType* const type = Find(number);
  return type != nullptr && type->writes_elsewhere ? type->name : nullptr;
}

}  // namespace quire::io
