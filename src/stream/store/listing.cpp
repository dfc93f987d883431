#include "stream/store/listing.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace quire::stream {
namespace {

constexpr std::string_view kLogPrefix = "log-";

// Returns the rank of a log's file; none for its lock and for names without a number.
std::optional<uint32_t> RankOf(std::string_view file) {
  if (!file.starts_with(kLogPrefix)) return std::nullopt;
  file.remove_prefix(kLogPrefix.size());
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), rank);
  const bool whole = error == std::errc() && end == file.data() + file.size();
  if (!whole || std::to_string(rank) != file) return std::nullopt;
  return rank;
}

}  // namespace

Result<std::vector<uint32_t>> ListRanks(io::FileSystem& fs, const std::string& place,
                                        const std::string& name) {
  QUIRE_RETURN_IF_ERROR(io::CheckName(name));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(place + "/" + name));
  std::vector<uint32_t> ranks;
  for (const io::FileInfo& file : files) {
    const auto rank = RankOf(file.name);
    if (rank && !file.is_directory) ranks.push_back(*rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<std::vector<std::string>> ListStores(io::FileSystem& fs, const std::string& place) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(place));
  std::vector<std::string> stores;
  for (const io::FileInfo& file : files) {
    if (!file.is_directory || !io::CheckName(file.name).ok()) continue;
    const auto ranks = ListRanks(fs, place, file.name);
    if (ranks.ok() && !ranks->empty()) stores.push_back(file.name);
  }
  std::sort(stores.begin(), stores.end());
  return stores;
}

}  // namespace quire::stream
