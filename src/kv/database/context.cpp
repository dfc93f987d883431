#include "kv/database/context.h"

#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/forked_child.h"
#include "kv/database/database_open.h"
#include "kv/database/together.h"
#include "kv/persistence/restart.h"
#include "runtime/agreement.h"
#include "runtime/job.h"

namespace quire::kv {
namespace {

class ContextImpl final : public Context {
 public:
  explicit ContextImpl(std::shared_ptr<runtime::ContextState> state) : state_(std::move(state)) {}

  ~ContextImpl() override {
    if (process_.forked()) {
      base::LeaveInChild(state_);
    } else {
      state_->End();
    }
  }

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  Result<std::shared_ptr<runtime::ContextState>> state() const {
    QUIRE_RETURN_IF_ERROR(Check());
    return state_;
  }
  const std::string& repository() const override { return state_->repository; }
  std::string Description() const override { return state_->description; }

  Result<std::unique_ptr<Database>> Open(const std::string& name,
                                         const DatabaseOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return OpenDatabase(state_, name, options);
  }
  Status Destroy(const std::string& name) override {
    QUIRE_RETURN_IF_ERROR(Check());
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Event> destroyed, BeginDestruction(name));
    return WaitTogether(*this, *destroyed);
  }
  Result<std::unique_ptr<Event>> DestroyAsync(const std::string& name) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return BeginDestruction(name);
  }
  Result<std::unique_ptr<Event>> Restart(const std::string& path, const std::string& name,
                                         const RestartOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Check());
    const uint32_t number = state_->TakeNumber();
    return runtime::Together(*state_->exchange,
                             [&] { return StartRestart(state_, number, path, name, options); });
  }

  Result<std::vector<std::string>> ListDatabases() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*state_->exchange, [&] { return kv::ListDatabases(*state_); });
  }
  Status Agree(const Status& mine) override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*state_->exchange, [&] { return state_->exchange->Agree(mine); });
  }
  Status Barrier() override {
    QUIRE_RETURN_IF_ERROR(Check());
    return runtime::Together(*state_->exchange, [&] { return state_->exchange->Barrier(); });
  }
  Status Notify(int signal, const std::vector<int>& ranks) override {
    QUIRE_RETURN_IF_ERROR(CheckRanks(ranks));
    return state_->exchange->Notify(signal, ranks);
  }
  Status WaitSignal(int signal, const std::vector<int>& ranks) override {
    QUIRE_RETURN_IF_ERROR(CheckRanks(ranks));
    return state_->exchange->WaitSignal(signal, ranks);
  }
  void Progress() override {
    if (process_.MayCall()) state_->Progress();
  }

 private:
  Result<std::unique_ptr<Event>> BeginDestruction(const std::string& name) {
    const uint32_t number = state_->TakeNumber();
    return runtime::Together(*state_->exchange,
                             [&] { return StartDestruction(state_, number, name); });
  }
  Status Check() const { return process_.Check("the context"); }
  Status CheckRanks(const std::vector<int>& ranks) const {
    QUIRE_RETURN_IF_ERROR(Check());
    for (const int rank : ranks) {
      if (rank >= 0 && rank < size()) continue;
      return Status(Code::kInvalidArgument, "there is no rank " + std::to_string(rank) +
                                                "; there are 0 to " + std::to_string(size() - 1));
    }
    return Status();
  }

  const base::OwnProcess process_;
  std::shared_ptr<runtime::ContextState> state_;
};

}  // namespace

Result<std::shared_ptr<runtime::ContextState>> ContextStateOf(Context& context) {
  return static_cast<ContextImpl&>(context).state();
}

Status WaitTogether(Context& context, Event& event) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::ContextState> state,
                         ContextStateOf(context));
  const Status ended = runtime::EndOf([&] { return event.Wait(); });
  return runtime::AgreeOnOutcome(*state->exchange, ended);
}

Result<std::unique_ptr<Context>> NewContext(const runtime::Environment& environment,
                                            std::unique_ptr<comm::Transport> transport,
                                            Slice repository, const ContextOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<runtime::ContextState> state,
      runtime::NewContextState(environment, std::move(transport), repository, options));
  std::unique_ptr<ContextImpl> context;
  const Status made = state->exchange->Agree(base::OrOutOfMemory([&] {
    context = std::make_unique<ContextImpl>(state);
    return Status();
  }));
  if (made.ok()) return std::unique_ptr<Context>(std::move(context));
  if (context == nullptr) state->End();  // else its destructor does
  return made;
}

}  // namespace quire::kv
