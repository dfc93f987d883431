// Runs a fuzz target once over each file of its seed corpus, for builds without libFuzzer.
//
//   quire_table_fuzz CORPUS...     CORPUS is a file or a folder
//
// Fails when there is no file to run: a test that tries nothing shows nothing.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

int RunFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    return 1;
  }
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  int run_count = 0;
  int failed_count = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else if (std::filesystem::exists(argv[i])) {
      files.emplace_back(argv[i]);
    }
    for (const auto& file : files) {
      ++run_count;
      if (RunFile(file) != 0) ++failed_count;
    }
  }
  std::printf("%d inputs, %d failed\n", run_count, failed_count);
  return run_count == 0 || failed_count != 0 ? 1 : 0;
}
