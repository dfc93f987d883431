/// Every public call of databases and datasets in C++, and of databases in C, as rows; and the
/// objects that the rows are called on.
///
/// Layer      tests
/// Threads    one
#ifndef QUIRE_TESTS_API_DATABASE_CALLS_H_
#define QUIRE_TESTS_API_DATABASE_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/quire.h"
#include "quire/reader.h"
#include "tests/api/every_call.h"

namespace quire::test {

/// One of each kind, as a program has them. The pair "key", "value" was acknowledged by all.
struct DatabaseObjects {
  explicit DatabaseObjects(const std::string& directory);
  /// Those of one rank. All ranks make them, and make each call together.
  DatabaseObjects(const std::string& directory, std::unique_ptr<Context> of);

  void OpenDatabase();
  void OpenDatasetWriter();
  /// Begins an epoch and puts a pair, with a writer that was opened for it.
  void BeginEpoch();
  void WalkFromTheFirst();
  /// Closes "db", with all that belongs to it.
  void CloseDatabase();
  /// Makes a second database, which is closed.
  void MakeSecond();
  /// Makes the store of DoorRows().
  void MakeStore();
  /// Returns what the writing calls change: equal texts if they changed nothing.
  std::string State();
  /// Expects that the acknowledged pair is there, in a context of its own.
  static void ExpectAllThere(const std::string& directory);

  const std::string home;
  std::unique_ptr<Context> context;
  std::unique_ptr<Database> database;
  std::unique_ptr<Event> checkpoint;
  std::unique_ptr<PendingGet> pending;
  std::unique_ptr<LocalIterator> iterator;
  std::unique_ptr<DatasetWriter> writer;
  std::unique_ptr<DatabaseReader> reader;
  std::unique_ptr<LocalIterator> walk;
  std::unique_ptr<DatasetReader> dataset;
  std::unique_ptr<DatasetScan> scan;
};

using DatabaseRow = CallRow<DatabaseObjects, Status>;

/// The calls of Database; Close is the last one.
std::vector<DatabaseRow> DatabaseRows();
/// The calls of objects that a database, a context or nothing gave.
std::vector<DatabaseRow> HeldRows();
std::vector<DatabaseRow> DatasetRows();
/// All of them, and those of Context.
std::vector<DatabaseRow> AllRows();
/// Functions that need nothing that was opened.
std::vector<DatabaseRow> LibraryRows();
/// Functions that open something, or look for it.
std::vector<DatabaseRow> DoorRows();

/// What C programs have.
struct CDatabaseObjects {
  explicit CDatabaseObjects(const std::string& at);
  /// Those of one rank; closes `of`. All ranks make them, and make each call together.
  CDatabaseObjects(const std::string& at, quire_context* of);
  ~CDatabaseObjects() { Close(); }
  CDatabaseObjects(const CDatabaseObjects&) = delete;
  CDatabaseObjects& operator=(const CDatabaseObjects&) = delete;
  /// Destroys all of it.
  void Close();
  void Reopen();
  std::string State() const;
  static void ExpectAllThere(const std::string& directory);

  const std::string home;
  const std::string checkpoints;
  const std::string other;      // no repository yet
  const std::string directory;  // of the database
  quire_context* context = nullptr;
  quire_db* db = nullptr;
  quire_iter* iter = nullptr;
  quire_event* saved = nullptr;
  quire_batch* batch = nullptr;
};

using CDatabaseRow = CallRow<CDatabaseObjects, int>;

/// The functions quire_db_NAME, without the prefix; close is the last one.
std::vector<CDatabaseRow> CDatabaseRows();
/// Functions of C that open something.
std::vector<CDatabaseRow> CDoorRows();
/// Functions of contexts, events, options, batches, iterators and readers in C, and of the library.
std::vector<CDatabaseRow> CHeldRows();

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_DATABASE_CALLS_H_
