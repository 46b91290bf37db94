"""One step for a new database in place of 0001 to 0018: `migrate` takes three fifths of the time."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import cluster.database.compact


def vacuum_sooner(apps, schema_editor):
    """Let PostgreSQL vacuum the table of bids after each twentieth row, as 0018 does."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE auctions_bid SET (autovacuum_vacuum_scale_factor = 0.05)")


def make_indexes_now(apps, schema_editor):
    """Run the statements that wait for the end of the migration.

    With none left Django records the steps in the transaction of the tables. Otherwise it records them one by one
    afterwards, and a process that is killed meanwhile leaves tables that the next one makes again, which fails.
    """
    for statement in schema_editor.deferred_sql:
        schema_editor.execute(statement)
    schema_editor.deferred_sql.clear()


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("auctions", name)
        for name in (
            "0001_initial",
            "0002_worker_signs",
            "0003_withdrawals_of_standing_bids",
            "0004_bid_team",
            "0005_compact_texts",
            "0006_webhooks",
            "0007_budgets_of_teams",
            "0008_sign_of_beat",
            "0009_bid_trace_context",
            "0010_stored_webhook_secrets",
            "0011_turns_of_owners",
            "0012_archives",
            "0013_bid_that_stood",
            "0014_columns_of_bodies",
            "0015_copied_bodies",
            "0016_bodies_in_place",
            "0017_smaller_indexes_of_bids",
            "0018_fewer_indexes",
        )
    ]
    dependencies = [
        ("accounts", "0004_identities"),
        ("cluster", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='WorkerSign',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text="Celery's name of the worker, or `sweep`.", max_length=150, unique=True)),
                ('queues', models.CharField(blank=True, help_text='Queues from which it takes tasks, separated by commas.', max_length=200)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='BudgetPeriod',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('starts_on', models.DateField()),
                ('ends_on', models.DateField(help_text='The first day after it.')),
                ('granted', models.BigIntegerField(default=0, help_text='Sum of grants, millionths of a credit.')),
                ('taken', models.BigIntegerField(default=0, help_text='Sum of holds, millionths of a credit.')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='budget_periods', to='accounts.team')),
            ],
            options={
                'ordering': ['-starts_on', 'team__name'],
                'constraints': [models.UniqueConstraint(fields=('team', 'starts_on', 'ends_on'), name='budget_period_once'), models.CheckConstraint(condition=models.Q(('ends_on__gt', models.F('starts_on'))), name='budget_period_ends_after_it_starts'), models.CheckConstraint(condition=models.Q(('taken__gte', 0)), name='budget_period_taken_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='Market',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.UUIDField(default=uuid.uuid4, editable=False, help_text="Key of the market's book in a process's memory.", unique=True)),
                ('version', models.PositiveBigIntegerField(default=0, editable=False)),
                ('ledger_version', models.PositiveBigIntegerField(default=0, editable=False, help_text='Version of the last event that changed the data decisions depend on.')),
                ('submitted', models.PositiveBigIntegerField(default=0, editable=False, help_text='Sequence number of the last submitted bid.')),
                ('inventory_version', models.PositiveBigIntegerField(default=0, editable=False, help_text='Version of the event that holds the inventory in force.')),
                ('policy_number', models.PositiveIntegerField(default=0, editable=False, help_text='Number of the policy version in force.')),
                ('is_open', models.BooleanField(default=True, help_text='A closed market accepts no bids.')),
                ('planning_failed', models.BooleanField(default=False, editable=False, help_text='Whether the policy failed when it last planned jobs.')),
                ('slot', models.BigIntegerField(default=0, editable=False, help_text='Last slot that began and was processed.')),
                ('now', models.BigIntegerField(default=0, editable=False, help_text='First slot on sale when the ledger last changed.')),
                ('turns_from', models.PositiveBigIntegerField(default=0, editable=False, help_text='Version after which owners take turns; before, bids were in order.')),
                ('keep_days', models.PositiveIntegerField(editable=False, help_text='Days after which events are archived; null if they are kept.', null=True)),
                ('sealed_version', models.PositiveBigIntegerField(default=0, editable=False, help_text='Version of the last archived event; 0 if nothing is archived.')),
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='market', to='cluster.cluster')),
            ],
        ),
        migrations.CreateModel(
            name='CompetitiveRatio',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('basis', models.CharField(help_text='Fingerprint of the input: complete jobs, servers and policy.', max_length=80)),
                ('findings', models.JSONField()),
                ('duration_ms', models.FloatField()),
                ('computed_at', models.DateTimeField()),
                ('market', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='competitive_ratio', to='auctions.market')),
            ],
            options={
                'verbose_name_plural': 'competitive ratios',
            },
        ),
        migrations.CreateModel(
            name='Certificate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the market at which the bound was computed.')),
                ('kind', models.CharField(choices=[('zero_price', 'Zero-price bound'), ('posted_price', 'Posted-price bound (weak duality)')], max_length=12)),
                ('value', models.FloatField()),
                ('zero_price', models.FloatField()),
                ('posted_price', models.FloatField()),
                ('welfare', models.FloatField(help_text='Welfare of the same bids at that version.')),
                ('gap', models.FloatField(help_text='(bound - welfare) / bound; 0 if the bound is 0.')),
                ('decided', models.PositiveBigIntegerField(help_text='Number of decided bids that the bound covers.')),
                ('loose', models.PositiveBigIntegerField(default=0, help_text='Number of bids that count with their zero-price term, for lack of time or after a new inventory or policy.')),
                ('duration_ms', models.FloatField()),
                ('computed_at', models.DateTimeField()),
                ('settled_bids', models.PositiveBigIntegerField(default=0, editable=False)),
                ('settled_loose', models.PositiveBigIntegerField(default=0, editable=False)),
                ('settled_terms', models.FloatField(default=0.0, editable=False)),
                ('settled_standalone_values', models.FloatField(default=0.0, editable=False)),
                ('settled_through', models.BigIntegerField(editable=False, help_text='Slots before this one are part of the stored sum.', null=True)),
                ('settled_capacity', models.FloatField(default=0.0, editable=False)),
                ('market', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='certificate', to='auctions.market')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['zero_price', 'posted_price'])), name='certificate_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='Outage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('drain', 'Drain'), ('lost', 'Lost')], max_length=5)),
                ('from_slot', models.BigIntegerField(help_text='First slot in which the server takes no new work.')),
                ('deadline', models.BigIntegerField(help_text='Slot in which jobs that still hold the server are moved or fail; null if they may finish.', null=True)),
                ('out_slot', models.BigIntegerField(help_text='First slot in which nobody holds the server: it was lost, or its deadline was reached.', null=True)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('reported_at', models.DateTimeField()),
                ('version', models.PositiveBigIntegerField(help_text="Version of the market's event that recorded this row.")),
                ('ended_slot', models.BigIntegerField(help_text='First slot in which this outage was no longer in force.', null=True)),
                ('ended_version', models.PositiveBigIntegerField(null=True)),
                ('reported_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outages', to='cluster.server')),
            ],
            options={
                'ordering': ['-version'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_version__isnull', True)), fields=('server',), name='outage_in_force_once'), models.CheckConstraint(condition=models.Q(('kind__in', ['drain', 'lost'])), name='outage_kind_known'), models.CheckConstraint(condition=models.Q(('deadline__isnull', True), ('deadline__gte', models.F('from_slot')), _connector='OR'), name='outage_deadline_after_start'), models.CheckConstraint(condition=models.Q(models.Q(('ended_slot__isnull', True), ('ended_version__isnull', True)), models.Q(('ended_slot__isnull', False), ('ended_version__isnull', False)), _connector='OR'), name='outage_ended_wholly')],
            },
        ),
        migrations.CreateModel(
            name='OwnerTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.BigIntegerField(help_text='Key of the user, or minus the key of the team.')),
                ('version', models.PositiveBigIntegerField(help_text="Version of the event that was the owner's last turn.")),
                ('market', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='turns', to='auctions.market')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('market', 'owner'), name='owner_turn_once')],
            },
        ),
        migrations.CreateModel(
            name='PolicyVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('name', models.CharField(max_length=60)),
                ('parameters', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='policies', to='auctions.market')),
            ],
            options={
                'ordering': ['-number'],
                'constraints': [models.UniqueConstraint(fields=('market', 'number'), name='policy_version_once')],
            },
        ),
        migrations.CreateModel(
            name='Publication',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the market at which the figures were read.')),
                ('slot', models.BigIntegerField(help_text='Slot that had just begun.')),
                ('figures', models.JSONField(help_text='Counts, money and times, by their names in a summary.')),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='auctions.market')),
            ],
            options={
                'ordering': ['version'],
                'constraints': [models.UniqueConstraint(fields=('market', 'version'), name='publication_once')],
            },
        ),
        migrations.CreateModel(
            name='Seal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text='Place in the chain, from 1.')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the last event in the archive.')),
                ('slot', models.BigIntegerField(help_text='The cut: the first slot that began after that event.')),
                ('digest', models.CharField(help_text='SHA-256 of the manifest; the next manifest names it.', max_length=64)),
                ('manifest', models.TextField(help_text='First line of the archive: its contents and their digests, canonical JSON.')),
                ('end_state', cluster.database.compact.CompactTextField(help_text='State after the last event, canonical JSON; empty once a later seal has one.')),
                ('file_name', models.CharField(max_length=200)),
                ('file_sha256', models.CharField(max_length=64)),
                ('file_bytes', models.PositiveBigIntegerField()),
                ('sealed_at', models.DateTimeField()),
                ('cleared_through', models.PositiveBigIntegerField(default=0, help_text='Documents of its bids up to this sequence number have left the database.')),
                ('cleared_at', models.DateTimeField(help_text='Time when the last of its rows had left the database.', null=True)),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='seals', to='auctions.market')),
            ],
            options={
                'ordering': ['market', '-number'],
                'constraints': [models.UniqueConstraint(fields=('market', 'number'), name='seal_number_once'), models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='seal_number_from_1'), models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='seal_has_events')],
            },
        ),
        migrations.CreateModel(
            name='Bid',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.PositiveBigIntegerField()),
                ('idempotency_key', models.CharField(max_length=140, null=True)),
                ('body_digest', models.CharField(blank=True, help_text='SHA-256 of the canonical body, to compare requests with the same idempotency key; empty without one.', max_length=64)),
                ('label', models.CharField(blank=True, max_length=120)),
                ('submitted_at', models.DateTimeField()),
                ('submitted_s', models.FloatField(help_text='Cluster time of submission, seconds after the epoch.')),
                ('arrival_slot', models.BigIntegerField()),
                ('inventory_version', models.PositiveBigIntegerField(help_text='Version of the inventory to which `core_bid` refers.')),
                ('state', models.CharField(choices=[('submitted', 'Waiting'), ('standing', 'Standing'), ('planned', 'Planned'), ('running', 'Running'), ('completed', 'Completed'), ('rejected', 'Rejected'), ('withdrawn', 'Withdrawn'), ('quarantined', 'Quarantined'), ('cancelled', 'Cancelled'), ('failed', 'Failed')], default='submitted', max_length=12)),
                ('stands_until', models.BigIntegerField(help_text='Last slot in which it is tried again; null if its first rejection was final.', null=True)),
                ('tried_slot', models.BigIntegerField(help_text='First slot on sale when a standing bid was last tried, or was rejected first.', null=True)),
                ('tries', models.PositiveIntegerField(default=0, help_text='How often it was tried again after its first rejection.')),
                ('value', models.FloatField(help_text='Value at the granted completion.', null=True)),
                ('payment', models.FloatField(null=True)),
                ('start_slot', models.BigIntegerField(help_text='None while no start is planned.', null=True)),
                ('completion_slot', models.BigIntegerField(help_text='None while no completion is planned.', null=True)),
                ('ended_slot', models.BigIntegerField(help_text='Slot in which the job was cancelled, failed or ended early: the first that it no longer held.', null=True)),
                ('end_reason', models.CharField(blank=True, help_text='Reason why the job failed.', max_length=400)),
                ('refund', models.FloatField(default=0.0, help_text='Amount paid back to the owner of a failed job.')),
                ('kept_from', models.BigIntegerField(help_text='First slot in which the promise is kept by machines other than those in the receipt.', null=True)),
                ('unrecorded_withdrawal', models.BooleanField(default=False, help_text='Whether it was withdrawn while it stood, and the event of the next slot is still to name it.')),
                ('resolved_request', cluster.database.compact.CompactJSONField(help_text="The request with the data of the model's profile; it refers to servers and machine types by name, so it stays valid if the inventory changes.")),
                ('core_bid', cluster.database.compact.CompactJSONField(help_text='The bid as the policy reads it, in slots and exact rationals, by position in the inventory.')),
                ('trace_context', models.CharField(blank=True, default='', help_text='Where its decision belongs in a trace of OpenTelemetry; empty if none is recorded.', max_length=55)),
                ('program', models.JSONField(help_text='The `program` of the body, by which bids are found; null if it names none.', null=True)),
                ('body', cluster.database.compact.CompactJSONField(help_text='The request as it was sent, in seconds, MB and Mbit/s.')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='bids', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='bids', to='accounts.team')),
                ('market', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='bids', to='auctions.market')),
                ('seal', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='bids', to='auctions.seal')),
            ],
            options={
                'ordering': ['-sequence'],
                'indexes': [models.Index(condition=models.Q(('unrecorded_withdrawal', True)), fields=['market'], name='bid_unrecorded_withdrawal'), models.Index(condition=models.Q(('stands_until__isnull', False)), fields=['market', '-sequence'], name='bid_that_stood'), models.Index(condition=models.Q(('state', 'submitted')), fields=['market', 'sequence'], name='bid_waiting'), models.Index(fields=['market', 'state'], name='bid_in_state'), models.Index(fields=['owner', 'market'], name='bid_of_owner'), models.Index(condition=models.Q(('team__isnull', False)), fields=['team'], name='bid_of_team')],
                'constraints': [models.UniqueConstraint(fields=('market', 'sequence'), name='bid_sequence_once'), models.UniqueConstraint(condition=models.Q(('idempotency_key__isnull', False)), fields=('market', 'owner', 'idempotency_key'), name='bid_idempotency_key_once'), models.CheckConstraint(condition=models.Q(('state__in', ['submitted', 'standing', 'planned', 'running', 'completed', 'rejected', 'withdrawn', 'quarantined', 'cancelled', 'failed'])), name='bid_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'standing'), _negated=True), ('stands_until__isnull', False), _connector='OR'), name='bid_standing_has_end'), models.CheckConstraint(condition=models.Q(models.Q(('stands_until__isnull', True), ('tried_slot__isnull', True), ('tries', 0)), models.Q(('stands_until__isnull', False), ('tried_slot__gte', models.F('arrival_slot'))), _connector='OR'), name='bid_tried_if_it_stands'), models.CheckConstraint(condition=models.Q(models.Q(('payment__isnull', False), ('value__isnull', False)), models.Q(('state__in', ['cancelled', 'completed', 'failed', 'planned', 'running']), _negated=True), _connector='OR'), name='bid_admitted_has_value'), models.CheckConstraint(condition=models.Q(models.Q(('state__in', ('running', 'completed')), _negated=True), ('start_slot__isnull', False), _connector='OR'), name='bid_running_has_start'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'completed'), _negated=True), ('completion_slot__isnull', False), ('ended_slot__isnull', False), _connector='OR'), name='bid_completed_has_completion'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'planned'), _negated=True), models.Q(('completion_slot__isnull', True), ('start_slot__isnull', True)), models.Q(('completion_slot__isnull', False), ('start_slot__isnull', False)), _connector='OR'), name='bid_planned_has_both_or_neither'), models.CheckConstraint(condition=models.Q(('payment__isnull', True), models.Q(('payment__gte', 0), ('payment__lte', models.F('value'))), _connector='OR'), name='bid_pays_at_most_its_value'), models.CheckConstraint(condition=models.Q(('refund', 0), models.Q(('state', 'failed'), ('refund__gt', 0), ('refund__lte', models.F('payment'))), _connector='OR'), name='bid_refund_within_payment'), models.CheckConstraint(condition=models.Q(('start_slot__isnull', True), models.Q(('start_slot__gte', models.F('arrival_slot')), models.Q(('completion_slot__isnull', True), ('completion_slot__gt', models.F('start_slot')), _connector='OR')), _connector='OR'), name='bid_runs_after_arrival'), models.CheckConstraint(condition=models.Q(('unrecorded_withdrawal', False), models.Q(('stands_until__isnull', False), ('state', 'withdrawn')), _connector='OR'), name='bid_withdrawn_while_it_stood')],
            },
        ),
        migrations.CreateModel(
            name='Commitment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('count', models.PositiveIntegerField()),
                ('start', models.BigIntegerField()),
                ('end', models.BigIntegerField(help_text='First slot after the window; cancelling the job makes it smaller.')),
                ('bid', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='commitments', to='auctions.bid')),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='commitments', to='cluster.machinetype')),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='commitments', to='cluster.server')),
            ],
            options={
                'ordering': ['start', 'server', 'machine_type'],
                'indexes': [models.Index(fields=['end'], name='commitment_by_end')],
                'constraints': [models.CheckConstraint(condition=models.Q(('count__gte', 1)), name='commitment_count_at_least_1'), models.CheckConstraint(condition=models.Q(('end__gte', models.F('start'))), name='commitment_window_forward')],
            },
        ),
        migrations.CreateModel(
            name='CreditTransaction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('granted', 'Granted'), ('held', 'Held'), ('charged', 'Charged'), ('refunded', 'Refunded')], max_length=10)),
                ('at', models.DateTimeField()),
                ('note', models.CharField(blank=True, max_length=200)),
                ('bid', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='credit_transactions', to='auctions.bid')),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('period', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='transactions', to='auctions.budgetperiod')),
            ],
            options={
                'ordering': ['-pk'],
                'indexes': [models.Index(fields=['period', 'kind'], name='credit_by_kind')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['granted', 'held', 'charged', 'refunded'])), name='credit_kind_known'), models.CheckConstraint(condition=models.Q(models.Q(('bid', None), ('kind', 'granted')), models.Q(models.Q(('kind', 'granted'), _negated=True), ('bid__isnull', False)), _connector='OR'), name='credit_of_a_bid_unless_granted'), models.UniqueConstraint(fields=('bid', 'kind'), name='credit_kind_once_a_bid')],
            },
        ),
        migrations.CreateModel(
            name='CreditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account', models.CharField(choices=[('issued', 'Issued'), ('available', 'Available'), ('held', 'Held'), ('charged', 'Charged')], max_length=10)),
                ('amount', models.BigIntegerField(help_text='Millionths of a credit; below 0 if they leave the account.')),
                ('transaction', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='auctions.credittransaction')),
            ],
            options={
                'verbose_name_plural': 'credit entries',
                'constraints': [models.CheckConstraint(condition=models.Q(('account__in', ['issued', 'available', 'held', 'charged'])), name='credit_account_known'), models.CheckConstraint(condition=models.Q(('amount', 0), _negated=True), name='credit_entry_not_zero'), models.UniqueConstraint(fields=('transaction', 'account'), name='credit_account_once')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField()),
                ('kind', models.CharField(choices=[('opened', 'Opened'), ('inventory', 'Inventory changed'), ('policy', 'Policy changed'), ('submitted', 'Bid submitted'), ('standing', 'Bid stands'), ('withdrawn', 'Bid withdrawn'), ('quarantined', 'Bid quarantined'), ('retried', 'Bid back in the queue'), ('admitted', 'Bid admitted'), ('rejected', 'Bid rejected'), ('slot', 'Slots passed'), ('cancelled', 'Job cancelled'), ('failed', 'Job failed'), ('completed', 'Job completed early')], max_length=12)),
                ('at', models.DateTimeField()),
                ('slot', models.BigIntegerField()),
                ('payload', models.JSONField(default=dict)),
                ('bid', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='auctions.bid')),
                ('market', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='auctions.market')),
            ],
            options={
                'ordering': ['version'],
                'constraints': [models.UniqueConstraint(fields=('market', 'version'), name='event_version_once'), models.CheckConstraint(condition=models.Q(('kind__in', ['opened', 'inventory', 'policy', 'submitted', 'standing', 'withdrawn', 'quarantined', 'retried', 'admitted', 'rejected', 'slot', 'cancelled', 'failed', 'completed'])), name='event_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='Payment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.FloatField()),
                ('created_at', models.DateTimeField()),
                ('bid', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='charge', to='auctions.bid')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='payment_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='PlanChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the event that changed the plan.')),
                ('at', models.DateTimeField()),
                ('slot', models.BigIntegerField(help_text='First slot that could be used.')),
                ('start', models.BigIntegerField(help_text='None if no start is planned.', null=True)),
                ('completion', models.BigIntegerField(help_text='None if no completion is planned.', null=True)),
                ('bid', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='plan_changes', to='auctions.bid')),
            ],
            options={
                'ordering': ['version'],
                'constraints': [models.UniqueConstraint(fields=('bid', 'version'), name='plan_change_once')],
            },
        ),
        migrations.CreateModel(
            name='PolicyError',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the event that recorded this row.')),
                ('at', models.DateTimeField()),
                ('slot', models.BigIntegerField(help_text='First slot on sale.')),
                ('error', models.TextField(help_text='Class and message of the exception.')),
                ('traceback', models.TextField(help_text='Empty if planning failed with the same error as before.')),
                ('bid', models.ForeignKey(help_text='None if planning failed.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='policy_errors', to='auctions.bid')),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='policy_errors', to='auctions.market')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='errors', to='auctions.policyversion')),
            ],
            options={
                'ordering': ['-version'],
                'constraints': [models.UniqueConstraint(fields=('market', 'version'), name='policy_error_once')],
            },
        ),
        migrations.CreateModel(
            name='FirstDecision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ledger_version', models.PositiveBigIntegerField(help_text='Ledger version at which the bid was decided.')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the event that recorded this row.')),
                ('inventory_version', models.PositiveBigIntegerField(help_text='Version of the inventory to which positions refer.')),
                ('slot', models.BigIntegerField(help_text='First slot on sale.')),
                ('decided_at', models.DateTimeField()),
                ('decided_s', models.FloatField(help_text='Cluster time of the decision, seconds after the epoch.')),
                ('latency_ms', models.FloatField(help_text="Duration of the policy's decision.")),
                ('standalone_value', models.FloatField(help_text="Standalone value: the bid's term in the zero-price bound, as in the receipt.")),
                ('receipt', cluster.database.compact.CompactTextField()),
                ('bid', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='first_decision', to='auctions.bid')),
                ('policy', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='first_decisions', to='auctions.policyversion')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='DecisionRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ledger_version', models.PositiveBigIntegerField(help_text='Ledger version at which the bid was decided.')),
                ('version', models.PositiveBigIntegerField(help_text='Version of the event that recorded this row.')),
                ('inventory_version', models.PositiveBigIntegerField(help_text='Version of the inventory to which positions refer.')),
                ('slot', models.BigIntegerField(help_text='First slot on sale.')),
                ('decided_at', models.DateTimeField()),
                ('decided_s', models.FloatField(help_text='Cluster time of the decision, seconds after the epoch.')),
                ('latency_ms', models.FloatField(help_text="Duration of the policy's decision.")),
                ('standalone_value', models.FloatField(help_text="Standalone value: the bid's term in the zero-price bound, as in the receipt.")),
                ('costs', models.JSONField(help_text="Posted cost of each slot from the schedule's start on; null if jobs do not pay, or if costs were not stored yet.", null=True)),
                ('stood_from', models.BigIntegerField(help_text='First slot on sale when the bid began to stand; null if it was decided once.', null=True)),
                ('receipt', cluster.database.compact.CompactTextField()),
                ('bid', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='decision', to='auctions.bid')),
                ('policy', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='auctions.policyversion')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PsAssignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.CharField(choices=[('edge', 'Edge'), ('cloud', 'Cloud, like all workers of the job'), ('fallback', 'Cloud, because none was free at the edge'), ('none', 'None was free')], max_length=8)),
                ('start', models.BigIntegerField()),
                ('end', models.BigIntegerField(help_text='End so far; it grows while the job runs.')),
                ('bid', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ps_assignments', to='auctions.bid')),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='ps_assignments', to='cluster.machinetype')),
                ('server', models.ForeignKey(help_text='Server at the edge; null for the cloud.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='ps_assignments', to='cluster.server')),
            ],
            options={
                'ordering': ['start', 'bid'],
                'indexes': [models.Index(fields=['end'], name='ps_assignment_by_end')],
                'constraints': [models.CheckConstraint(condition=models.Q(('end__gt', models.F('start'))), name='ps_assignment_forward'), models.CheckConstraint(condition=models.Q(('host__in', ['edge', 'cloud', 'fallback', 'none'])), name='ps_assignment_host_known'), models.CheckConstraint(condition=models.Q(('host', 'edge'), ('server__isnull', True), _connector='XOR'), name='ps_assignment_server_at_edge')],
            },
        ),
        migrations.CreateModel(
            name='QueuedChunks',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('worker', models.IntegerField(help_text="Number of the worker among the server's workers of that type; -1 if each chunk has its own.")),
                ('count', models.PositiveIntegerField()),
                ('since', models.BigIntegerField(help_text='Slot in which the chunks were sent.')),
                ('release', models.BigIntegerField(help_text='Slot in which the upload ends; delays may change after the chunks were sent.')),
                ('order', models.PositiveBigIntegerField(help_text='Number of the job among all queued jobs; it breaks ties between equal ranks.')),
                ('each', models.BigIntegerField(help_text='Processing time of one chunk there, in billionths of a slot.')),
                ('rank', models.BigIntegerField(help_text='Rank of the job: chunks x billionths of a slot for each with communication, plus the handicap.')),
                ('handicap', models.BigIntegerField(default=0, help_text='Part of the rank that ageing added, in billionths of a slot.')),
                ('until', models.BigIntegerField(help_text='Slot in which chunks that were not complete left the queue.', null=True)),
                ('done', models.PositiveIntegerField(help_text='Number of chunks that were complete then.', null=True)),
                ('bid', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queued', to='auctions.bid')),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queued', to='cluster.machinetype')),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queued', to='cluster.server')),
            ],
            options={
                'ordering': ['since', 'server', 'machine_type', 'worker'],
                'constraints': [models.CheckConstraint(condition=models.Q(('count__gte', 1)), name='queued_count_at_least_1'), models.CheckConstraint(condition=models.Q(models.Q(('done__isnull', True), ('until__isnull', True)), models.Q(('done__lte', models.F('count')), ('until__gte', models.F('since'))), _connector='OR'), name='queued_taken_out_in_part')],
            },
        ),
        migrations.CreateModel(
            name='Preemption',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.BigIntegerField()),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='preempted', to='auctions.queuedchunks')),
                ('queued', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='preemptions', to='auctions.queuedchunks')),
            ],
            options={
                'ordering': ['at', 'queued'],
            },
        ),
        migrations.CreateModel(
            name='Segment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('count', models.PositiveIntegerField(default=1, help_text='Number of workers in parallel, in the cloud.')),
                ('start', models.BigIntegerField()),
                ('end', models.BigIntegerField()),
                ('queued', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='segments', to='auctions.queuedchunks')),
            ],
            options={
                'ordering': ['start', 'queued'],
                'indexes': [models.Index(fields=['end'], name='segment_by_end')],
                'constraints': [models.CheckConstraint(condition=models.Q(('count__gte', 1)), name='segment_count_at_least_1'), models.CheckConstraint(condition=models.Q(('end__gt', models.F('start'))), name='segment_forward')],
            },
        ),
        migrations.CreateModel(
            name='SlotPrice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slot', models.BigIntegerField()),
                ('inventory_version', models.PositiveBigIntegerField(help_text='Version of the inventory to which positions refer.')),
                ('prices', models.JSONField(help_text='Prices by server and resource, S x R, money per unit and slot.')),
                ('used', models.JSONField(help_text='Units in use by server and resource, S x R.')),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='slot_prices', to='auctions.market')),
            ],
            options={
                'ordering': ['slot'],
                'constraints': [models.UniqueConstraint(fields=('market', 'slot'), name='slot_price_once')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('url', models.CharField(max_length=500)),
                ('of_team', models.BooleanField(default=False)),
                ('types', models.JSONField(default=list)),
                ('old_until', models.DateTimeField(editable=False, null=True)),
                ('is_on', models.BooleanField(default=True)),
                ('off_reason', models.CharField(blank=True, editable=False, max_length=200)),
                ('created_at', models.DateTimeField(editable=False)),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
                ('busy_until', models.DateTimeField(editable=False, null=True)),
                ('secret', models.CharField(editable=False, max_length=200)),
                ('old_secret', models.CharField(blank=True, editable=False, max_length=200)),
                ('cluster', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='cluster.cluster')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='webhook_has_a_name'), models.CheckConstraint(condition=models.Q(('is_on', False), ('off_reason', ''), _connector='OR'), name='webhook_that_is_on_has_no_reason'), models.CheckConstraint(condition=models.Q(models.Q(('old_secret', ''), ('old_until', None)), models.Q(models.Q(('old_secret', ''), _negated=True), ('old_until__isnull', False)), _connector='OR'), name='webhook_old_secret_has_end')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('version', models.PositiveBigIntegerField(null=True)),
                ('type', models.CharField(max_length=20)),
                ('body', models.TextField()),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('given_up', 'Given up')], default='waiting', max_length=10)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('next_at', models.DateTimeField(null=True)),
                ('tried_at', models.DateTimeField(null=True)),
                ('answer', models.PositiveIntegerField(null=True)),
                ('problem', models.CharField(blank=True, max_length=200)),
                ('bid', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auctions.bid')),
                ('market', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auctions.market')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='auctions.webhook')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('status', 'waiting')), fields=['webhook', 'id'], name='delivery_waiting'), models.Index(fields=['created_at'], name='delivery_by_age')],
                'constraints': [models.UniqueConstraint(fields=('webhook', 'market', 'version', 'bid', 'type'), name='delivery_once'), models.CheckConstraint(condition=models.Q(('status__in', ['waiting', 'delivered', 'given_up'])), name='delivery_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('next_at__isnull', False), ('status', 'waiting')), models.Q(models.Q(('status', 'waiting'), _negated=True), ('next_at', None)), _connector='OR'), name='delivery_that_waits_has_a_time')],
            },
        ),
        migrations.CreateModel(
            name='WebhookCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveBigIntegerField()),
                ('market', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auctions.market')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cursors', to='auctions.webhook')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('webhook', 'market'), name='webhook_cursor_once')],
            },
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('period', models.CharField(choices=[('week', 'Week'), ('month', 'Month'), ('quarter', 'Quarter'), ('year', 'Year')], max_length=10)),
                ('amount', models.BigIntegerField(help_text='Granted when a period begins, millionths of a credit.')),
                ('team', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='budget', to='accounts.team')),
            ],
            options={
                'ordering': ['team__name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('period__in', ['week', 'month', 'quarter', 'year'])), name='budget_period_known'), models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='budget_not_negative')],
            },
        ),
        migrations.RunPython(vacuum_sooner, migrations.RunPython.noop),
        migrations.RunPython(make_indexes_now, migrations.RunPython.noop),
    ]
