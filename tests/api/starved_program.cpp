#include "starved_program.h"

#include <cstdio>

namespace quire::test {

StarvedProgram::StarvedProgram(std::string repository, int key_count)
    : repository_(std::move(repository)) {
  for (int i = 0; i < key_count; ++i) {
    keys_.push_back("key" + std::to_string(100 + i));
    for (const int round : {1, 2}) {
      values_[round].push_back(std::to_string(round) + std::string(i % 5 == 0 ? 2000 : 100, 'v'));
    }
  }
}

bool StarvedProgram::Check(int code) {
  if (code == QUIRE_OK) return true;
  failed_ = true;
  if (code != QUIRE_OUT_OF_MEMORY && code != QUIRE_READ_ONLY && code != QUIRE_NOT_FOUND &&
      code != QUIRE_INVALID_ARGUMENT && !(code == QUIRE_BUSY && busy_allowed_)) {
    Complain(quire_code_name(code));
  }
  return false;
}

void StarvedProgram::Complain(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), quire_error_message());
  wrong_ = true;
}

bool StarvedProgram::OpenContext() {
  return Check(quire_context_open(repository_.c_str(), nullptr, &context_));
}

bool StarvedProgram::OpenDatabase() {
  quire_options* options = nullptr;
  if (!Check(quire_options_create(&options))) return false;
  const bool opened = Check(quire_options_set(options, "memtable_bytes", "64KiB")) &&
                      Check(quire_db_open(context_, "db", options, &db_));
  quire_options_destroy(options);
  return opened;
}

void StarvedProgram::CloseDatabase() {
  Check(quire_db_close(db_));
  db_ = nullptr;
}

void StarvedProgram::CloseAll() {
  if (db_ != nullptr) CloseDatabase();
  Check(quire_context_close(context_));
  context_ = nullptr;
}

bool StarvedProgram::Put(int i, int round) {
  const std::string& key = keys_[static_cast<size_t>(i)];
  const std::string& value = values_[round][static_cast<size_t>(i)];
  return Check(quire_db_put(db_, key.data(), key.size(), value.data(), value.size()));
}

void StarvedProgram::Read(int i) {
  const std::string& key = keys_[static_cast<size_t>(i)];
  void* value = nullptr;
  size_t size = 0;
  if (Check(quire_db_get(db_, key.data(), key.size(), &value, &size))) quire_free(value);
}

int StarvedProgram::RoundOf(int i) {
  const std::string& key = keys_[static_cast<size_t>(i)];
  void* bytes = nullptr;
  size_t size = 0;
  const int code = quire_db_get(db_, key.data(), key.size(), &bytes, &size);
  if (code == QUIRE_NOT_FOUND) return 0;
  const std::string found = code == QUIRE_OK ? std::string(static_cast<char*>(bytes), size) : "";
  quire_free(bytes);
  for (const int round : {1, 2}) {
    if (found == values_[round][static_cast<size_t>(i)]) return round;
  }
  return -1;
}

}  // namespace quire::test
