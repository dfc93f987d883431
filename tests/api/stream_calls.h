/// Every public call of streams, in C++ and in C, and of datasets in C, as rows; and the objects
/// that the rows are called on.
///
/// Layer      tests
/// Threads    one
#ifndef QUIRE_TESTS_API_STREAM_CALLS_H_
#define QUIRE_TESTS_API_STREAM_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quire/quire.h"
#include "quire/quire_dataset.h"
#include "quire/quire_stream.h"
#include "quire/stream.h"
#include "tests/api/every_call.h"

namespace quire::test {

constexpr char kStreamKey[] = "key";
constexpr size_t kStreamKeyBytes = sizeof kStreamKey - 1;

/// What the calls belong to. One place has the writer of C++, another one that of C.
struct StreamObjects {
  explicit StreamObjects(const std::string& directory);
  ~StreamObjects();
  StreamObjects(const StreamObjects&) = delete;
  StreamObjects& operator=(const StreamObjects&) = delete;

  /// Opens a writer and creates its object, as they are at first.
  void OpenWriter();
  void OpenCWriter();
  void OpenCSet();
  /// Begins an epoch and puts a pair, with a writer that was opened for it.
  void BeginCEpoch();
  /// Returns what the writing calls change: equal texts if they changed nothing.
  std::string State() const;
  /// Expects that the acknowledged versions are there.
  static void ExpectAllThere(const std::string& directory);

  const std::string home;
  const std::string c_place;
  const std::string set_directory;
  std::unique_ptr<StreamWriter> writer;
  std::unique_ptr<StreamReader> reader;
  std::unique_ptr<StreamView> view;
  quire_options* options = nullptr;
  quire_stream_writer* c_writer = nullptr;
  quire_stream_reader* c_reader = nullptr;
  quire_stream_view* c_view = nullptr;
  quire_context* context = nullptr;
  quire_dataset_writer* set = nullptr;
  quire_dataset_reader* set_reader = nullptr;
  quire_dataset_scan* scan = nullptr;
};

using StreamRow = CallRow<StreamObjects, Status>;
using CStreamRow = CallRow<StreamObjects, int>;

/// The calls of StreamWriter; Finish is the last one.
std::vector<StreamRow> StreamWriterRows();
/// The calls of StreamReader, and StreamView::Verify.
std::vector<StreamRow> StreamReaderRows();
/// The functions quire_stream_writer_NAME, and so on, without the prefix.
std::vector<CStreamRow> CStreamWriterRows();
std::vector<CStreamRow> CStreamReaderRows();
std::vector<CStreamRow> CDatasetWriterRows();
std::vector<CStreamRow> CDatasetReaderRows();
std::vector<CStreamRow> CScanRows();
/// The functions of C datasets that belong to none of them, by their whole names.
std::vector<CStreamRow> CDatasetOtherRows();
/// Functions that open something, or look for it, by their whole names.
std::vector<CStreamRow> CStreamDoorRows();

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_STREAM_CALLS_H_
